package org.apache.spark.sql.catalogext.formats

import java.util.{Locale, Properties}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.hive.serde2.AbstractSerDe
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector
import org.apache.hadoop.io.Text

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.execution.datasources.v2.csv.CSVPartitionReaderFactory
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, PartitionReaderFromIterator,
  PartitionReaderWithPartitionValues}
import org.apache.spark.sql.execution.datasources.{HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.TaskContext

/**
 * Text that one of Hive's SerDes reads and writes. The classes are those of Hive 2.3, which Spark contains.
 *
 * @param serde the class name
 * @param options of the table, with names in lower case: Spark's name of an option if there is one, otherwise Hive's
 */
case class HiveText(serde: String, options: Map[String, String]) {
  import HiveText._

  /** The number of lines that readers skip at the start of each file (and below: at its end). */
  val headerLines: Int =
    options.get(HeaderLines).map(_.trim.toInt).getOrElse(if (options.get("header").exists(_.equalsIgnoreCase("true"))) 1 else 0)
  val footerLines: Int = options.get(FooterLines).fold(0)(_.trim.toInt)

  // The reader of a file's first split always reads past its first line, so one header line allows a split; more do
  // not.
  def isSplitable: Boolean = headerLines <= 1 && footerLines == 0

  def hasTimestampFormats: Boolean = options.contains(TimestampFormats)

  def separator: Byte = serde match {
    case LazySimple => delimiter.toByte
    case _ => options.getOrElse("sep", ",").charAt(0).toByte
  }

  def escape: Option[Byte] = options.get("escape.delim").filter(_.nonEmpty).map(text =>
    text.toByteOption.getOrElse(text.charAt(0).toByte))

  /**
   * A new SerDe for columns of these Hive types. Column names are generated, because Hive allows fewer names than
   * Spark.
   */
  def newSerde(types: Seq[String], conf: Configuration): AbstractSerDe = {
    val settings = new Properties()
    settings.setProperty("columns", types.indices.map(i => s"c$i").mkString(","))
    settings.setProperty("columns.types", types.mkString(":"))
    own.foreach { case (name, value) => settings.setProperty(name, value) }
    val made = Class.forName(serde, true, getClass.getClassLoader).getConstructor().newInstance().asInstanceOf[AbstractSerDe]
    made.initialize(conf, settings)
    made
  }

  private def delimiter: Int = options.get("sep") match {
    case Some("\\\\") => '\\'
    case Some("\\t") => '\t'
    case Some(text) if text.nonEmpty => text.charAt(0)
    case _ => 1
  }

  private def own: Map[String, String] = serde match {
    case LazySimple => options.filter { case (name, _) => Passed(name) } +
      ("field.delim" -> delimiter.toByte.toString) +
      ("serialization.null.format" -> options.getOrElse("nullvalue", "\\N"))
    case _ => Quoted.flatMap { case (option, name) => options.get(option).map(name -> _) }
  }
}

object HiveText {
  val Serde = "serde"
  val LazySimple = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
  val OpenCsv = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
  private val HeaderLines = "skip.header.line.count"
  private val FooterLines = "skip.footer.line.count"
  private val TimestampFormats = "timestamp.formats"

  /** Options of LazySimpleSerDe that are passed on under Hive's names. */
  private val Passed = Set(
    "escape.delim", "colelction.delim", "mapkey.delim", "serialization.encoding", "serialization.escape.crlf",
    "serialization.last.column.takes.rest", "hive.serialization.extend.nesting.levels",
    "hive.serialization.extend.additional.nesting.levels", TimestampFormats)
  private val Quoted = Map("sep" -> "separatorChar", "quote" -> "quoteChar", "escape" -> "escapeChar")

  /** The SerDe that a table's options name; None if Spark's own reader reads the files. */
  def of(options: Iterable[(String, String)]): Option[HiveText] = {
    val lower = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }.toMap
    lower.get(Serde).map { serde =>
      if (serde != LazySimple && serde != OpenCsv) throw ConnectorErrors.analysis(ConnectorErrors.UnsupportedFormat,
        s"The option $Serde is '$serde'. Tables of text have $LazySimple or $OpenCsv.", Map("format" -> serde))
      check(serde)
      HiveText(serde, lower)
    }
  }

  private def check(serde: String): Unit =
    try Class.forName(serde, false, getClass.getClassLoader) catch {
      case e @ (_: ClassNotFoundException | _: NoClassDefFoundError) =>
        throw ConnectorErrors.analysis(ConnectorErrors.EnvironmentSetup,
          s"A table of Hive's text needs the class $serde, which this Spark does not have. Use a Spark that is built " +
            "with Hive, as PySpark is, or add hive-serde of Hive 2.3 to its jars.",
          Map("class" -> serde), Some(e))
    }
}

/**
 * Reads text by Hive's SerDe. Hive's TextInputFormat splits lines (also within quotes), the SerDe converts values.
 * Filters are not applied; Spark evaluates them after the scan.
 *
 * @param csv has the schema, the options and the Hadoop configuration of the scan
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
    // Lines of older files may lack the last columns, which then have these defaults.
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

  /** All lines but the last `count`. The lines are copied, because Hadoop's reader reuses one object. */
  private def withoutLast(lines: Iterator[Text], count: Int): Iterator[Text] = {
    val held = mutable.Queue.empty[Text]
    lines.map { line =>
      held.enqueue(new Text(line))
      if (held.length > count) Some(held.dequeue()) else None
    }.flatten
  }
}
