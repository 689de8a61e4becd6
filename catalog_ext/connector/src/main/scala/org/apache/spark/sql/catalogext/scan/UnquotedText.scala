package org.apache.spark.sql.catalogext.scan

import org.apache.hadoop.mapreduce.TaskAttemptContext

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.formats.HiveText
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.{StringType, StructType}

/**
 * Delimited text without quotes, as ROW FORMAT DELIMITED makes it: a text that holds the separator or the end of a line
 * would be read as other columns or rows, by Hive as well, so that it is refused. So is a row that is an empty line, which
 * Spark's writer leaves out.
 */
object UnquotedText {
  def guard(writers: OutputWriterFactory, table: TableMetadata, options: Map[String, String]): OutputWriterFactory =
    if (table.format != "csv" || !options.get("quote").contains("") || HiveText.of(table.options).isDefined) writers
    else {
      val separator = options.get("sep").orElse(options.get("delimiter")).getOrElse(",")
      new UnquotedTextFactory(writers, table.qualifiedName, Seq(separator, "\n", "\r"), options.get("nullvalue"))
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
