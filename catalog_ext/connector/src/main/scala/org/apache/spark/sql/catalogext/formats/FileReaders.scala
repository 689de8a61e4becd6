package org.apache.spark.sql.catalogext.formats

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalogext.scan.UnquotedTextReader
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, FileScan}
import org.apache.spark.sql.execution.datasources.v2.csv.{CSVPartitionReaderFactory, CSVScan}
import org.apache.spark.sql.execution.datasources.v2.json.JsonPartitionReaderFactory

/** Chooses the readers of a scan: Spark's own, or a reader of this package around them (`docs/design/16-text-formats.md`). */
object FileReaders {
  /**
   * @param files Spark's readers
   * @param isRegistered whether the files are those of a table; an ad-hoc path has no Hive SerDe
   * @param keys the names of the partition columns, which a CSV header may have as well
   */
  def of(files: FilePartitionReaderFactory, isRegistered: Boolean, keys: Seq[String]): FilePartitionReaderFactory =
    files match {
      case csv: CSVPartitionReaderFactory =>
        val hive = if (isRegistered) HiveText.of(csv.options.parameters) else None
        hive.fold[FilePartitionReaderFactory] {
          val read: CSVPartitionReaderFactory => FilePartitionReaderFactory =
            if (isRegistered) UnquotedTextReader.of else identity
          if (CsvHeaders.areRead(csv.options)) new CsvHeaderReaderFactory(csv, keys, read) else read(csv)
        }(new HiveTextReaderFactory(csv, _))
      case json: JsonPartitionReaderFactory => JsonKeys.inAnyCase(json)
      case other => other
    }

  /** Whether tasks may read parts of a file. Hive's lines to skip at both ends are counted in whole files. */
  def isSplitable(scan: FileScan): Path => Boolean = scan match {
    case csv: CSVScan if HiveText.of(csv.options.asCaseSensitiveMap().asScala).exists(!_.isSplitable) => _ => false
    case other => other.isSplitable
  }
}
