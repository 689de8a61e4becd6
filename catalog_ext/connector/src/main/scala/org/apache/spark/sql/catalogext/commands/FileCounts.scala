package org.apache.spark.sql.catalogext.commands

import java.io.FileNotFoundException

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{DirectoryFiles, Footer, PlannedRows}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, ServiceException, StatisticsRequests}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.functions
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration

/** A file as `tables/plan` gave it, with an unknown row count. */
case class UncountedFile(partition: String, path: String, uri: String, size: Long, modifiedMillis: Long)

/** Counts the rows of files: out of footers where the format has them, otherwise by reading. */
object FileCounts extends Logging {
  private val FilesOfTask = 32

  /**
   * The files that ANALYZE has to look at, in the partitions that the clauses name; in all partitions where there is no
   * clause. Footers hold statistics of columns besides the count, so that a file of which only the rows are known is
   * measured again.
   */
  def uncounted(table: CatalogExtTable, clauses: Seq[Seq[KeyComparison]]): Seq[UncountedFile] = {
    val metadata = table.metadata
    val measures = hasFooters(metadata) && measuredColumns(table).nonEmpty
    val request = obj(Seq(
      "table_id" -> long(metadata.tableId), "version" -> long(metadata.version), "predicate" -> Null) ++
      // Files of another format have other footers: their rows stay uncounted.
      Option.when(metadata.descriptors.nonEmpty)("descriptor" -> long(0)) ++
      Option.when(measures)("unmeasured" -> bool(true)) ++
      PartitionClauses.fields(clauses): _*)
    ServiceException.translating(table.client.stream("tables/plan", request) { input =>
      val found = ArrayBuffer.empty[UncountedFile]
      ArrowRows.foreachBatch(input) { batch =>
        val rows = new PlannedRows(batch)
        val file = new DirectoryFiles
        for (i <- 0 until batch.getRowCount if measures || rows.rowCount(i) < 0) {
          rows.only(i, file)
          val uri = file.status(0, file.directory(metadata.location)).getPath.toString
          found += UncountedFile(file.name.toString, file.path(0), uri, file.size(0), file.modifiedMs(0))
        }
      }
      found.toSeq
    })
  }

  /** The contract's entries of these files. Raises a runtime error that names a file which is not there. */
  def count(session: SparkSession, table: CatalogExtTable, files: Seq[UncountedFile]): Seq[JsonNode] =
    if (files.isEmpty) Nil
    else if (hasFooters(table.metadata)) ofFooters(session, table, files)
    else byReading(session, table, files)

  private def hasFooters(table: TableMetadata): Boolean = table.format == "parquet" || table.format == "orc"

  /** The columns whose statistics are kept: the first ones, as many as `write.statistics-columns` says. */
  private def measuredColumns(of: CatalogExtTable): StructType = {
    val settings = ResolvedSettings.of("write", of.client, of.catalogName, of.metadata, CaseInsensitiveStringMap.empty(),
      SparkSession.active.sessionState.conf)
    val columns = of.metadata.columns.take(settings.long("write.statistics-columns").fold(Int.MaxValue)(_.toInt))
    PartitionColumns.plainSchema(StructType(columns))
  }

  private def ofFooters(session: SparkSession, of: CatalogExtTable, files: Seq[UncountedFile]): Seq[JsonNode] = {
    val table = of.metadata
    val conf = new SerializableConfiguration(session.sessionState.newHadoopConfWithOptions(table.options))
    val (format, schema) = (table.format, measuredColumns(of))
    val tasks = math.min(math.max(files.length / FilesOfTask, 1), session.sparkContext.defaultParallelism * 4)
    val found = session.sparkContext.parallelize(files, tasks).map(footer(format, _, conf.value, schema)).collect()
    val changed = found.count(_.exists(_.isEmpty))
    if (changed > 0) logWarning(s"$changed files of ${table.qualifiedName} have changed since the index last compared them " +
      s"with the store; ANALYZE leaves their rows unknown. Repair the table: MSCK REPAIR TABLE ${table.qualifiedName} SYNC " +
      "PARTITIONS")
    files.zip(found).flatMap {
      case (file, Right(counted)) => counted.map { case (rows, statistics) => entry(file, rows, mapper.readTree(statistics)) }
      case (file, Left(None)) => throw missing(table, file)
      case (file, Left(Some(why))) => throw unreadable(table, file, why)
    }
  }

  /**
   * Rows and statistics (JSON text) of a file, None where the store has another file in its place; else why it cannot be
   * read, None where it is not there.
   */
  private def footer(
      format: String,
      file: UncountedFile,
      conf: Configuration,
      schema: StructType): Either[Option[String], Option[(Long, String)]] = try {
    val found = Footer.read(format, new Path(file.uri), file.size, file.modifiedMillis, conf, schema)
    Right(Option.when(found.isIndexed)((found.rows, found.statistics.toString)))
  } catch {
    case _: FileNotFoundException => Left(None)
    case NonFatal(e) => Left(Some(Option(e.getMessage).getOrElse(e.getClass.getName)))
  }

  /** Reads the whole table: the rows of text files can only be counted by reading them. */
  private def byReading(session: SparkSession, table: CatalogExtTable, files: Seq[UncountedFile]): Seq[JsonNode] = {
    val relation = ColumnStatistics.relation(table).withMetadataColumns()
    val path = UnresolvedAttribute(Seq("_metadata", "file_path"))
    val paths = Project(Seq(Alias(path, "path")()), relation)
    val counts = Dataset.ofRows(session, paths).groupBy("path").agg(functions.count(functions.lit(1))).collect()
      .map(row => row.getString(0) -> row.getLong(1)).toMap
    // A file without rows is in no group.
    files.map(file => entry(file, counts.getOrElse(new Path(file.uri).toUri.toString, 0L), Null))
  }

  private def entry(file: UncountedFile, rows: Long, statistics: JsonNode): JsonNode =
    StatisticsRequests.file(file.partition, file.path, file.size, file.modifiedMillis, rows, statistics)

  private def missing(table: TableMetadata, file: UncountedFile): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.FileMissing,
      s"The file ${file.uri} of partition '${file.partition}' of table ${table.qualifiedName} is not there. Repair the " +
        s"table: MSCK REPAIR TABLE ${table.qualifiedName} SYNC PARTITIONS, then analyze it again.",
      Map("path" -> file.uri, "partition" -> file.partition))

  private def unreadable(table: TableMetadata, file: UncountedFile, why: String): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.FileUnreadable,
      s"The file ${file.uri} of partition '${file.partition}' of table ${table.qualifiedName} cannot be read as " +
        s"${table.format}: ${why.stripSuffix(".")}. Put a whole file in its place or delete it, then repair the table " +
        s"(MSCK REPAIR TABLE ${table.qualifiedName} SYNC PARTITIONS) and analyze it again.",
      Map("path" -> file.uri, "partition" -> file.partition))
}
