package org.apache.spark.sql.catalogext.formats

import java.time.ZoneId

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.hive.serde2.objectinspector.{ObjectInspectorFactory, ObjectInspectorUtils, StructObjectInspector}
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils
import org.apache.hadoop.io.Text
import org.apache.hadoop.mapreduce.{Job, TaskAttemptContext}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.util.CompressionCodecs
import org.apache.spark.sql.execution.datasources.{CodecStreams, FileFormat, OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.{DataType, StructType, TimestampNTZType, TimestampType}

/**
 * Writes text by Hive's SerDe. Each row is read back by the SerDe before it is kept: a value that Hive would read
 * differently is refused with the name of its column.
 */
class HiveTextFileFormat(text: HiveText, table: String) extends FileFormat {
  override def inferSchema(spark: SparkSession, options: Map[String, String], files: Seq[FileStatus]): Option[StructType] =
    None

  override def supportDataType(dataType: DataType): Boolean = HiveTypes.supports(dataType)

  override def toString: String = "Hive's text"

  override def prepareWrite(
      spark: SparkSession, job: Job, options: Map[String, String], schema: StructType): OutputWriterFactory = {
    val csv = new CSVOptions(options, columnPruning = true, spark.sessionState.conf.sessionLocalTimeZone)
    csv.compressionCodec.foreach(CompressionCodecs.setCodecConfiguration(job.getConfiguration, _))
    if (text.hasTimestampFormats) schema.find(field => isTime(field.dataType)).foreach { field =>
      throw ConnectorErrors.analysis(ConnectorErrors.NotSupported,
        s"Table $table cannot be written: its SerDe has timestamp.formats, and column '${field.name}' is a TIMESTAMP. " +
          "Let Hive write it, or make another table without that setting.",
        Map("table" -> table, "column" -> field.name))
    }
    new HiveTextWriterFactory(text, table, csv.zoneId)
  }

  private def isTime(dataType: DataType): Boolean = dataType.existsRecursively {
    case TimestampType | TimestampNTZType => true
    case _ => false
  }
}

private class HiveTextWriterFactory(text: HiveText, table: String, zone: ZoneId) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String =
    ".csv" + CodecStreams.getCompressionExtension(context)

  override def newInstance(path: String, schema: StructType, context: TaskAttemptContext): OutputWriter =
    new HiveTextWriter(text, table, zone, path, schema, context)
}

private class HiveTextWriter(
    text: HiveText, table: String, zone: ZoneId, override val path: String, schema: StructType, context: TaskAttemptContext)
  extends OutputWriter {

  private val types = schema.map(field => HiveTypes.text(field.dataType, "string"))
  private val values = new HiveValues(zone)
  private val writers = schema.fields.map(field => values.writer(field.dataType))
  private val conf = context.getConfiguration
  private val serde = text.newSerde(types, conf)
  private val inspector = inspectorOf(types)
  private val reading = text.newSerde(types, conf)
  private val read = reading.getObjectInspector.asInstanceOf[StructObjectInspector]
  private val refs = read.getAllStructFieldRefs.asScala.toArray
  private val out = CodecStreams.createOutputStream(context, new Path(path))
  private var isFirst = text.headerLines == 0

  writeSkipped(text.headerLines)

  override def write(row: InternalRow): Unit = {
    val objects = new java.util.ArrayList[Any](writers.length)
    writers.indices.foreach(i => objects.add(writers(i)(if (row.isNullAt(i)) null else row.get(i, schema(i).dataType))))
    val line = serde.serialize(objects, inspector).asInstanceOf[Text]
    check(objects, line)
    isFirst = false
    put(line)
  }

  override def close(): Unit = {
    writeSkipped(text.footerLines)
    out.close()
  }

  private def put(line: Text): Unit = {
    out.write(line.getBytes, 0, line.getLength)
    out.write('\n')
  }

  /** Writes the header lines, which readers skip: the names of the columns, then empty lines. */
  private def writeSkipped(lines: Int): Unit = (0 until lines).foreach { number =>
    val strings = schema.map(_ => "string")
    if (number > 0) out.write('\n')
    else put(text.newSerde(strings, conf).serialize(schema.fieldNames.toList.asJava, inspectorOf(strings)).asInstanceOf[Text])
  }

  private def inspectorOf(types: Seq[String]): StructObjectInspector =
    ObjectInspectorFactory.getStandardStructObjectInspector(
      types.indices.map(i => s"c$i").asJava,
      types.map(name => TypeInfoUtils.getStandardJavaObjectInspectorFromTypeInfo(
        TypeInfoUtils.getTypeInfoFromTypeString(name))).asJava)

  private def check(objects: java.util.List[Any], line: Text): Unit = {
    val (bytes, length) = (line.getBytes, line.getLength)
    if ((0 until length).exists(i => bytes(i) == '\n' || bytes(i) == '\r')) {
      val place = (0 until objects.size).find(i => String.valueOf(objects.get(i)).exists(c => c == '\n' || c == '\r'))
      refuse(place.getOrElse(0), objects, "it holds the end of a line")
    }
    if (isFirst && length > 2 && bytes(0) == 0xEF.toByte && bytes(1) == 0xBB.toByte && bytes(2) == 0xBF.toByte)
      refuse(0, objects, "the file would begin with a byte order mark, which readers leave out")
    val record = reading.deserialize(new Text(line))
    refs.indices.foreach { i =>
      val found = ObjectInspectorUtils.copyToStandardJavaObject(read.getStructFieldData(record, refs(i)),
        refs(i).getFieldObjectInspector)
      if (!HiveValues.same(objects.get(i), found))
        refuse(i, objects, s"Hive would read it as ${if (found == null) "NULL" else s"'${String.valueOf(found).take(80)}'"}")
    }
  }

  private def refuse(place: Int, objects: java.util.List[Any], why: String): Nothing = {
    val value = if (objects.get(place) == null) "NULL" else s"'${String.valueOf(objects.get(place)).take(80)}'"
    val serdeName = text.serde.split('.').last
    throw ConnectorErrors.runtime(
      ConnectorErrors.InvalidValue,
      s"The value $value of column '${schema(place).name}' of table $table cannot be written as text of Hive's " +
        s"$serdeName: $why. Store the table as PARQUET or ORC, or make it with other delimiters, ESCAPED BY or NULL DEFINED AS.",
      Map("table" -> table, "column" -> schema(place).name))
  }
}
