package org.apache.spark.sql.catalogext.formats

import java.util.Locale

import com.univocity.parsers.csv.CsvParser

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.csv.{CSVExprUtils, CSVOptions}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, Literal, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.{CodecStreams, HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory
import org.apache.spark.sql.execution.datasources.v2.csv.CSVPartitionReaderFactory
import org.apache.spark.sql.types.{StringType, StructField, StructType}

/** Columns of CSV files by the names in each file's header. Spark reads them by position, whatever the header says. */
object CsvHeaders {
  val EnforceSchema = "enforceschema"

  /** An explicit `enforceSchema` keeps its meaning in Spark: true reads by position, false compares every header. */
  def areRead(options: CSVOptions): Boolean = options.headerFlag && !options.parameters.contains(EnforceSchema)

  /** The names in the header of a file, None of a file without one; as `CSVUtils.makeSafeHeader` spells them. */
  def read(csv: CSVPartitionReaderFactory, file: PartitionedFile, caseSensitive: Boolean): Option[Seq[String]] = {
    val header = if (csv.options.multiLine) firstRecord(csv, file) else firstLine(csv, file)
    header.map(names => safeNames(names, csv.options, caseSensitive))
  }

  /** As Spark finds it where each line is a record: it passes over comments and over lines that hold blanks alone. */
  private def firstLine(csv: CSVPartitionReaderFactory, file: PartitionedFile): Option[Seq[String]] = {
    val whole = file.copy(start = 0, length = file.fileSize)
    val reader = new HadoopFileLinesReader(whole, csv.options.lineSeparatorInRead, csv.broadcastedConf.value.value)
    try {
      val lines = reader.map(line => new String(line.getBytes, 0, line.getLength, csv.options.charset))
      CSVExprUtils.extractHeader(lines, csv.options)
        .flatMap(line => Option(new CsvParser(csv.options.asParserSettings).parseLine(line))).map(_.toSeq)
    } finally reader.close()
  }

  private def firstRecord(csv: CSVPartitionReaderFactory, file: PartitionedFile): Option[Seq[String]] = {
    val settings = csv.options.asParserSettings
    settings.setReadInputOnSeparateThread(false)
    settings.setLineSeparatorDetectionEnabled(csv.options.lineSeparatorInRead.isEmpty)
    settings.setInputBufferSize(BufferChars)
    val parser = new CsvParser(settings)
    val in = CodecStreams.createInputStream(csv.broadcastedConf.value.value, file.toPath)
    try {
      parser.beginParsing(in, csv.options.charset)
      Option(parser.parseNext()).map(_.toSeq)
    } finally try parser.stopParsing() finally in.close()
  }

  private[formats] def safeNames(row: Seq[String], options: CSVOptions, caseSensitive: Boolean): Seq[String] = {
    def folded(name: String) = if (caseSensitive || name == null) name else name.toLowerCase(Locale.ROOT)
    val repeated = row.groupBy(folded).collect { case (name, all) if all.length > 1 => name }.toSet
    row.zipWithIndex.map { case (name, place) =>
      if (name == null || name.isEmpty || name == options.nullValue) s"_c$place"
      else if (repeated(folded(name))) s"$name$place"
      else name
    }
  }

  private val BufferChars = 4096
}

/**
 * Reads each file by its own header: a column that the header lacks shows its default or NULL, and names that the table
 * does not have are left out. A file that has neither is refused, because a line of values would be taken for names.
 *
 * @param read makes the reader of files whose columns stand as in the schema
 */
class CsvHeaderReaderFactory(
    csv: CSVPartitionReaderFactory,
    keys: Seq[String],
    read: CSVPartitionReaderFactory => FilePartitionReaderFactory)
  extends FilePartitionReaderFactory {

  override protected def options: FileSourceOptions = csv.options

  // Read here, on the driver: a conf that was sent to a task cannot be asked.
  private val resolver = csv.sqlConf.resolver
  private val caseSensitive = csv.sqlConf.caseSensitiveAnalysis
  private val corrupt = csv.dataSchema.filter(_.name == csv.options.columnNameOfCorruptRecord)
  private val columns = csv.dataSchema.filterNot(corrupt.contains)

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = CsvHeaders.read(csv, file, caseSensitive) match {
    case Some(header) if !isAsSchema(header) => byName(file, header)
    case _ => read(csv).buildReader(file)
  }

  private def isAsSchema(header: Seq[String]): Boolean =
    header.length == columns.length && header.zip(columns).forall { case (name, field) => resolver(name, field.name) }

  private def byName(file: PartitionedFile, header: Seq[String]): PartitionReader[InternalRow] = {
    val found = header.map(name => columns.find(field => resolver(field.name, name)))
    check(file, header, found)
    val inFile = StructType(found.zipWithIndex.map { case (field, place) =>
      field.getOrElse(StructField(s"${CsvHeaderReaderFactory.LeftOut}$place", StringType))
    } ++ corrupt)
    // In the file's order: Spark's parser takes columns by place where all of a file's are read.
    val there = StructType(inFile.filter(field => csv.readDataSchema.fieldNames.contains(field.name)))
    // Spark evaluates the filters again after the scan, and a filter may be of a column that the file lacks.
    val reader = read(csv.copy(dataSchema = inFile, readDataSchema = there, filters = Nil)).buildReader(file)
    if (there == csv.readDataSchema) reader else new ProjectedReader(reader, projection(there))
  }

  private def check(file: PartitionedFile, header: Seq[String], found: Seq[Option[StructField]]): Unit = {
    val unknown = header.zip(found).collect { case (name, None) if !keys.exists(resolver(_, name)) => name }
    val missing = columns.filterNot(found.flatten.contains).map(_.name)
    if (unknown.nonEmpty && missing.nonEmpty) throw ConnectorErrors.runtime(ConnectorErrors.InvalidInput,
      s"The header of the file ${file.toPath} is (${shown(header)}), and the columns are (${shown(columns.map(_.name))}): " +
        s"it has ${shown(unknown)}, which is no column, and lacks ${shown(missing)}. Either the file has no header, or " +
        "a column is called otherwise. Write the file again with the names of the columns, or set the option " +
        "enforceSchema to true to read all files by position.",
      Map("file" -> file.toPath.toString, "column" -> missing.head))
  }

  private def shown(names: Seq[String]): String = names.mkString(", ").take(300)

  private def projection(there: StructType): Seq[Expression] = {
    val missing = ResolveDefaultColumns.existenceDefaultValues(csv.readDataSchema)
    val data = csv.readDataSchema.zipWithIndex.map { case (field, i) =>
      there.getFieldIndex(field.name).fold[Expression](Literal(missing(i), field.dataType))(
        BoundReference(_, field.dataType, nullable = true))
    }
    data ++ csv.partitionSchema.zipWithIndex.map { case (key, i) =>
      BoundReference(there.length + i, key.dataType, nullable = true)
    }
  }
}

private object CsvHeaderReaderFactory {
  val LeftOut = "\u0000left out "
}

private class ProjectedReader(inner: PartitionReader[InternalRow], values: Seq[Expression])
  extends PartitionReader[InternalRow] {
  private val projection = UnsafeProjection.create(values)

  override def next(): Boolean = inner.next()
  override def get(): InternalRow = projection(inner.get())
  override def close(): Unit = inner.close()
}
