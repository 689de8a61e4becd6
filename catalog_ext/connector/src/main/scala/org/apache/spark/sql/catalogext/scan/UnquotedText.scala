package org.apache.spark.sql.catalogext.scan

import java.nio.charset.Charset

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.hadoop.mapreduce.TaskAttemptContext

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.formats.HiveText
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.csv.{CSVExprUtils, CSVOptions, UnivocityParser}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{PermissiveMode, ResolveDefaultColumns}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.v2.csv.CSVPartitionReaderFactory
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, PartitionReaderFromIterator,
  PartitionReaderWithPartitionValues}
import org.apache.spark.sql.execution.datasources.{HadoopFileLinesReader, OutputWriter, OutputWriterFactory,
  PartitionedFile}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.{SparkUpgradeException, TaskContext}

/**
 * Guards the writers of delimited text without quotes, as in ROW FORMAT DELIMITED. A value that contains the separator
 * or a line break would be read as several columns or rows, also by Hive, so the write is refused. So is a row that
 * would be an empty line, which Spark's writer omits.
 */
object UnquotedText {
  def guard(writers: OutputWriterFactory, table: TableMetadata, options: Map[String, String]): OutputWriterFactory =
    if (table.format != "csv" || !options.get("quote").contains("") || HiveText.of(table.options).isDefined) writers
    else {
      val separator = options.get("sep").orElse(options.get("delimiter")).getOrElse(",")
      new UnquotedTextFactory(
        writers, table.qualifiedName, Seq(CSVExprUtils.toDelimiterStr(separator), "\n", "\r"), options.get("nullvalue"))
    }
}

private class UnquotedTextFactory(
    writers: OutputWriterFactory, table: String, refused: Seq[String], nullText: Option[String])
  extends OutputWriterFactory {

  override def getFileExtension(context: TaskAttemptContext): String = writers.getFileExtension(context)

  override def newInstance(path: String, schema: StructType, context: TaskAttemptContext): OutputWriter = {
    val texts = schema.fields.zipWithIndex.collect { case (field, i) if field.dataType.isInstanceOf[StringType] => i }
    new UnquotedTextWriter(writers.newInstance(path, schema, context), i => schema(i).name, texts, schema.length == 1)
  }

  private val emptyNull = nullText.forall(_.isEmpty)

  private class UnquotedTextWriter(writer: OutputWriter, name: Int => String, texts: Array[Int], alone: Boolean)
    extends OutputWriter {
    override def path(): String = writer.path()
    override def close(): Unit = writer.close()

    override def write(row: InternalRow): Unit = {
      texts.foreach { i =>
        if (!row.isNullAt(i)) check(i, row.getUTF8String(i).toString)
      }
      if (alone && isEmptyLine(row)) throw ConnectorErrors.runtime(
        ConnectorErrors.InvalidValue,
        s"A row of table $table cannot be written: it is an empty line, because column '${name(0)}' is the only one and " +
          "has no text, which Spark's writer of text leaves out. Store the table as PARQUET or ORC.",
        Map("table" -> table, "column" -> name(0)))
      writer.write(row)
    }

    private def isEmptyLine(row: InternalRow): Boolean =
      if (row.isNullAt(0)) emptyNull else texts.nonEmpty && row.getUTF8String(0).numBytes == 0

    private def check(column: Int, value: String): Unit =
      if (nullText.contains(value) || refused.exists(value.contains(_))) throw ConnectorErrors.runtime(
        ConnectorErrors.InvalidValue,
        s"The value '${value.take(80)}' of column '${name(column)}' of table $table cannot be written: its text has " +
          "no quotes, and the value is the word for NULL or holds the separator or the end of a line. Store the " +
          "table as PARQUET or ORC, or choose another separator.",
        Map("table" -> table, "column" -> name(column)))
  }
}

/**
 * Reads delimited text without quotes line by line, as Hive does. Spark's CSV parser returns NULL for an empty string
 * and skips lines of blanks and control characters. A Hive row of empty strings is such a line, because Hive's
 * separator is a control character.
 *
 * Spark's own converters convert the values to the types of the columns.
 */
class UnquotedTextReaderFactory(csv: CSVPartitionReaderFactory) extends FilePartitionReaderFactory {
  override protected def options: FileSourceOptions = csv.options

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = {
    val text = csv.options
    val read = csv.readDataSchema
    val parser = new UnivocityParser(csv.dataSchema, read, text)
    val converters = read.map(field => parser.makeConverter(field.name, field.dataType)).toArray
    val places = read.map(field => csv.dataSchema.fieldIndex(field.name)).toArray
    // Older files may lack the last columns, which then have these defaults.
    val missing = ResolveDefaultColumns.existenceDefaultValues(read)
    val charset = Charset.forName(text.charset)
    val separator = text.delimiter.charAt(0)

    val reader = new HadoopFileLinesReader(file, text.lineSeparatorInRead, csv.broadcastedConf.value.value)
    Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => reader.close()))
    val lines = if (text.headerFlag && file.start == 0) reader.drop(1) else reader
    val rows: Iterator[InternalRow] =
      if (places.isEmpty) lines.map(_ => InternalRow.empty)
      else lines.map { line =>
        val values = UnquotedTextReader.split(new String(line.getBytes, 0, line.getLength, charset), separator)
        val row = new GenericInternalRow(places.length)
        var i = 0
        while (i < places.length) {
          row(i) = if (places(i) >= values.length) missing(i) else try converters(i)(values(places(i))) catch {
            case e: SparkUpgradeException => throw e
            case NonFatal(_) => missing(i)
          }
          i += 1
        }
        row
      }
    new PartitionReaderWithPartitionValues(
      new PartitionReaderFromIterator(rows), read, csv.partitionSchema, file.partitionValues)
  }
}

object UnquotedTextReader {
  /** Wraps the readers of unquoted text only if Hive reads such a table in this way. */
  def of(files: FilePartitionReaderFactory): FilePartitionReaderFactory = files match {
    case csv: CSVPartitionReaderFactory if isPlain(csv.options) &&
        !csv.readDataSchema.fieldNames.contains(csv.options.columnNameOfCorruptRecord) =>
      new UnquotedTextReaderFactory(csv)
    case other => other
  }

  private def isPlain(options: CSVOptions): Boolean =
    options.quote == '\u0000' && options.delimiter.length == 1 && options.parseMode == PermissiveMode &&
      !options.multiLine && !options.isCommentSet && options.enforceSchema &&
      !options.ignoreLeadingWhiteSpaceInRead && !options.ignoreTrailingWhiteSpaceInRead

  private[catalogext] def split(line: String, separator: Char): Array[String] = {
    val values = new ArrayBuffer[String]
    var from = 0
    var at = line.indexOf(separator)
    while (at >= 0) {
      values += line.substring(from, at)
      from = at + 1
      at = line.indexOf(separator, from)
    }
    values += line.substring(from)
    values.toArray
  }
}
