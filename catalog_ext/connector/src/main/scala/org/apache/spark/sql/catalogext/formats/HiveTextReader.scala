package org.apache.spark.sql.catalogext.formats

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector
import org.apache.hadoop.io.Text

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.{HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, PartitionReaderFromIterator,
  PartitionReaderWithPartitionValues}
import org.apache.spark.sql.execution.datasources.v2.csv.CSVPartitionReaderFactory

/**
 * Reads text by Hive's SerDe: lines as Hive's TextInputFormat cuts them (also within quotes), values as the SerDe converts
 * them. Spark's filters are not applied here; Spark evaluates them after the scan.
 *
 * @param csv has the schema, the options and Hadoop's settings of the scan
 */
class HiveTextReaderFactory(csv: CSVPartitionReaderFactory, text: HiveText) extends FilePartitionReaderFactory {
  override protected def options: FileSourceOptions = csv.options

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = {
    val reader = new HadoopFileLinesReader(file, None, csv.broadcastedConf.value.value)
    Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => reader.close()))
    val body = if (file.start == 0) reader.drop(text.headerLines) else reader
    val lines = if (text.footerLines == 0) body else withoutLast(body, text.footerLines)
    new PartitionReaderWithPartitionValues(
      new PartitionReaderFromIterator(rows(lines)), csv.readDataSchema, csv.partitionSchema, file.partitionValues)
  }

  private def rows(lines: Iterator[Text]): Iterator[InternalRow] = {
    val read = csv.readDataSchema
    if (read.isEmpty) return lines.map(_ => InternalRow.empty)
    val serde = text.newSerde(
      csv.dataSchema.map(HiveTypes.of(_, text.hasTimestampFormats)), csv.broadcastedConf.value.value)
    val inspector = serde.getObjectInspector.asInstanceOf[StructObjectInspector]
    val all = inspector.getAllStructFieldRefs.asScala
    val places = read.map(field => csv.dataSchema.fieldIndex(field.name)).toArray
    val fields = places.map(all)
    val values = new HiveValues(csv.options.zoneId)
    val readers = read.zip(fields).map { case (field, ref) =>
      values.reader(ref.getFieldObjectInspector, field.dataType)
    }.toArray
    // What lines show that are older than a column which has a default.
    val missing = ResolveDefaultColumns.existenceDefaultValues(read)
    val hasDefaults = missing.exists(_ != null)
    lines.map { line =>
      val (record, row) = (serde.deserialize(line), new GenericInternalRow(fields.length))
      val there = if (hasDefaults) fieldsIn(line) else Int.MaxValue
      var i = 0
      while (i < fields.length) {
        row(i) = if (places(i) >= there) missing(i) else readers(i)(inspector.getStructFieldData(record, fields(i)))
        i += 1
      }
      row
    }
  }

  private def fieldsIn(line: Text): Int = {
    val (bytes, separator, escape) = (line.getBytes, text.separator, text.escape)
    var (count, i) = (1, 0)
    while (i < line.getLength) {
      if (escape.contains(bytes(i))) i += 1
      else if (bytes(i) == separator) count += 1
      i += 1
    }
    count
  }

  /** All lines but the last ones; Hadoop's reader gives one object for all lines. */
  private def withoutLast(lines: Iterator[Text], count: Int): Iterator[Text] = {
    val held = mutable.Queue.empty[Text]
    lines.map { line =>
      held.enqueue(new Text(line))
      if (held.length > count) Some(held.dequeue()) else None
    }.flatten
  }
}
