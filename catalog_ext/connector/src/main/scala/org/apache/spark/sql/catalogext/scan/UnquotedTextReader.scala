package org.apache.spark.sql.catalogext.scan

import java.nio.charset.Charset

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.spark.{SparkUpgradeException, TaskContext}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.csv.{CSVOptions, UnivocityParser}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{PermissiveMode, ResolveDefaultColumns}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.{HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, PartitionReaderFromIterator,
  PartitionReaderWithPartitionValues}
import org.apache.spark.sql.execution.datasources.v2.csv.CSVPartitionReaderFactory

/**
 * Reads delimited text without quotes line by line, as Hive does. Spark's parser of CSV takes an empty text for NULL, and
 * leaves out lines of blanks and control characters: a row of a Hive table whose texts are all empty is one, because
 * Hive's own separator is a control character.
 *
 * Values become the types of their columns by Spark's own converters.
 */
class UnquotedTextReaderFactory(csv: CSVPartitionReaderFactory) extends FilePartitionReaderFactory {
  override protected def options: FileSourceOptions = csv.options

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = {
    val text = csv.options
    val read = csv.readDataSchema
    val parser = new UnivocityParser(csv.dataSchema, read, text)
    val converters = read.map(field => parser.makeConverter(field.name, field.dataType)).toArray
    val places = read.map(field => csv.dataSchema.fieldIndex(field.name)).toArray
    // What files show that are older than a column.
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
  /** Reads as Hive does what a table's options say is text without quotes, and nothing that Hive does not know. */
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
