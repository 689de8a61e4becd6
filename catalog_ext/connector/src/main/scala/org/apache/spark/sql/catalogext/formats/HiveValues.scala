package org.apache.spark.sql.catalogext.formats

import java.time.{LocalDate, LocalDateTime, ZoneId}
import java.time.format.{DateTimeFormatter, DateTimeFormatterBuilder}
import java.time.temporal.ChronoField
import java.util.Arrays

import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.common.`type`.{HiveBaseChar, HiveDecimal}
import org.apache.hadoop.hive.serde2.`lazy`.LazyUtils
import org.apache.hadoop.hive.serde2.objectinspector.{ListObjectInspector, MapObjectInspector, ObjectInspector,
  PrimitiveObjectInspector, StructObjectInspector}
import org.apache.hadoop.hive.serde2.objectinspector.primitive.StringObjectInspector

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, ArrayData, CharVarcharUtils, DateTimeUtils, GenericArrayData,
  MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Converts Spark's column types to the Hive types that a text SerDe gets. */
object HiveTypes {
  def supports(dataType: DataType): Boolean = dataType match {
    case ArrayType(element, _) => supports(element)
    case MapType(key, value, _) => supports(key) && supports(value)
    case StructType(fields) => fields.forall(field => supports(field.dataType))
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BinaryType | DateType |
        TimestampType | TimestampNTZType | _: DecimalType | _: CharType | _: VarcharType | _: StringType => true
    case _ => false
  }

  /**
   * The type of a column for a SerDe.
   *
   * TIMESTAMP is passed as STRING and parsed by `HiveTimestamps`: Hive 2.3's own conversion uses the JVM's time zone
   * and shifts values in an hour that a clock change skips. `timestamp.formats` are parsed by Hive's class.
   */
  def of(field: StructField, formats: Boolean): String =
    text(CharVarcharUtils.getRawType(field.metadata).getOrElse(field.dataType), if (formats) "timestamp" else "string")

  def text(dataType: DataType, timestamp: String): String = dataType match {
    case BooleanType => "boolean"
    case ByteType => "tinyint"
    case ShortType => "smallint"
    case IntegerType => "int"
    case LongType => "bigint"
    case FloatType => "float"
    case DoubleType => "double"
    case BinaryType => "binary"
    case DateType => "date"
    case TimestampType | TimestampNTZType => timestamp
    case d: DecimalType => s"decimal(${d.precision},${d.scale})"
    case kind: CharType => s"char(${kind.length})"
    case kind: VarcharType => s"varchar(${kind.length})"
    case _: StringType => "string"
    case ArrayType(element, _) => s"array<${text(element, timestamp)}>"
    case MapType(key, value, _) => s"map<${text(key, timestamp)},${text(value, timestamp)}>"
    case StructType(fields) =>
      fields.zipWithIndex.map { case (f, i) => s"f$i:${text(f.dataType, timestamp)}" }.mkString("struct<", ",", ">")
    case other => throw new IllegalArgumentException(s"Hive's text has no type ${other.sql}")
  }
}

/**
 * Parses TIMESTAMP as `java.sql.Timestamp.valueOf` does in Hive 2.3, but without a time zone. It is lenient: 25:00 is
 * 1:00 of the next day.
 */
object HiveTimestamps {
  private val Layout =
    """(\d{4})-(\d{1,2})-(\d{1,2}) ([+-]?\d{1,9}):([+-]?\d{1,9}):([+-]?\d{1,9})(?:\.(\d{1,9}))?""".r
  private val Written: DateTimeFormatter = new DateTimeFormatterBuilder().appendPattern("uuuu-MM-dd HH:mm:ss")
    .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true).toFormatter

  def parse(text: Array[Byte]): LocalDateTime =
    if (!LazyUtils.isDateMaybe(text, 0, text.length)) null
    else new String(text, "US-ASCII").trim match {
      case Layout(year, month, day, hour, minute, second, fraction)
          if month.toInt >= 1 && month.toInt <= 12 && day.toInt >= 1 && day.toInt <= 31 =>
        LocalDateTime.of(year.toInt, month.toInt, 1, 0, 0).plusDays(day.toInt - 1L).plusHours(hour.toLong)
          .plusMinutes(minute.toLong).plusSeconds(second.toLong)
          .plusNanos(Option(fraction).fold(0L)(_.padTo(9, '0').toLong))
      case _ => null
    }

  def write(time: LocalDateTime): String = Written.format(time)
}

/** Converts values of a SerDe to values of Spark's rows; `zone` is the time zone of TIMESTAMP. */
class HiveValues(zone: ZoneId) {
  def reader(inspector: ObjectInspector, dataType: DataType): Any => Any = {
    val read = notNull(inspector, dataType)
    value => if (value == null) null else read(value)
  }

  private def notNull(inspector: ObjectInspector, dataType: DataType): Any => Any = (inspector, dataType) match {
    case (list: ListObjectInspector, ArrayType(element, _)) =>
      val read = reader(list.getListElementObjectInspector, element)
      value => Option(list.getList(value)).map(all => new GenericArrayData(all.asScala.map(read).toArray[Any])).orNull
    case (map: MapObjectInspector, MapType(key, element, _)) =>
      val (readKey, read) = (reader(map.getMapKeyObjectInspector, key), reader(map.getMapValueObjectInspector, element))
      value => Option(map.getMap(value)).map { all =>
        val pairs = all.asScala.toSeq
        ArrayBasedMapData(pairs.map(p => readKey(p._1)).toArray[Any], pairs.map(p => read(p._2)).toArray[Any])
      }.orNull
    case (struct: StructObjectInspector, StructType(fields)) =>
      val refs = struct.getAllStructFieldRefs.asScala.toArray
      val readers = refs.zip(fields).map { case (ref, field) => reader(ref.getFieldObjectInspector, field.dataType) }
      value => new GenericInternalRow(refs.zip(readers).map { case (ref, read) =>
        read(struct.getStructFieldData(value, ref))
      })
    case (text: StringObjectInspector, TimestampType | TimestampNTZType) =>
      value => time(HiveTimestamps.parse(bytes(text, value)), dataType)
    case (text: StringObjectInspector, _) => value => UTF8String.fromBytes(bytes(text, value))
    case (primitive: PrimitiveObjectInspector, _) => value => plain(primitive.getPrimitiveJavaObject(value), dataType)
    case _ => throw new IllegalArgumentException(s"${inspector.getTypeName} is not read as ${dataType.sql}")
  }

  private def bytes(text: StringObjectInspector, value: Any): Array[Byte] =
    if (text.preferWritable()) text.getPrimitiveWritableObject(value).copyBytes()
    else text.getPrimitiveJavaObject(value).getBytes("UTF-8")

  private def plain(value: Any, dataType: DataType): Any = value match {
    case null => null
    case text: HiveBaseChar => UTF8String.fromString(text.getValue)
    case date: java.sql.Date => Math.toIntExact(date.toLocalDate.toEpochDay)
    case moment: java.sql.Timestamp => time(moment.toLocalDateTime, dataType)
    case number: HiveDecimal =>
      val kind = dataType.asInstanceOf[DecimalType]
      Decimal(BigDecimal(number.bigDecimalValue()), kind.precision, kind.scale)
    case other => other
  }

  private def time(local: LocalDateTime, dataType: DataType): Any = dataType match {
    case _ if local == null => null
    case TimestampNTZType => DateTimeUtils.localDateTimeToMicros(local)
    case _ => DateTimeUtils.instantToMicros(local.atZone(zone).toInstant)
  }

  /**
   * The converter from a Spark value to the object that a SerDe writes: the types of Hive's standard Java inspectors,
   * and a text for TIMESTAMP.
   */
  def writer(dataType: DataType): Any => Any = {
    val write = written(dataType)
    value => if (value == null) null else write(value)
  }

  private def written(dataType: DataType): Any => Any = dataType match {
    case ArrayType(element, _) =>
      val write = writer(element)
      value => value.asInstanceOf[ArrayData].toSeq[Any](element).map(write).asJava
    case MapType(key, element, _) =>
      val (writeKey, write) = (writer(key), writer(element))
      value => {
        val (map, all) = (value.asInstanceOf[MapData], new java.util.LinkedHashMap[Any, Any])
        map.foreach(key, element, (k, v) => all.put(writeKey(k), write(v)))
        all
      }
    case StructType(fields) =>
      val writers = fields.map(field => writer(field.dataType))
      value => fields.indices.map { i => writers(i)(value.asInstanceOf[InternalRow].get(i, fields(i).dataType)) }.asJava
    case DateType => value => java.sql.Date.valueOf(LocalDate.ofEpochDay(value.asInstanceOf[Int].toLong))
    case TimestampType => value =>
      HiveTimestamps.write(LocalDateTime.ofInstant(DateTimeUtils.microsToInstant(value.asInstanceOf[Long]), zone))
    case TimestampNTZType => value => HiveTimestamps.write(DateTimeUtils.microsToLocalDateTime(value.asInstanceOf[Long]))
    case _: DecimalType => value => HiveDecimal.create(value.asInstanceOf[Decimal].toJavaBigDecimal)
    case _: StringType => value => value.toString
    case _ => identity
  }
}

object HiveValues {
  /** Whether a value that the SerDe has read back equals the written value. */
  def same(written: Any, read: Any): Boolean = (written, read) match {
    case (a: Array[Byte], b: Array[Byte]) => Arrays.equals(a, b)
    case (a: java.util.List[_], b: java.util.List[_]) =>
      a.size == b.size && a.asScala.zip(b.asScala).forall { case (x, y) => same(x, y) }
    case (a: java.util.Map[_, _], b: java.util.Map[_, _]) =>
      // Compare the entries of a map in order: keys of BINARY are arrays, which a look-up would not find.
      a.size == b.size && a.asScala.zip(b.asScala).forall { case ((k, v), (l, w)) => same(k, l) && same(v, w) }
    case (a: java.lang.Double, b: java.lang.Double) => a.equals(b)
    case (a: java.lang.Float, b: java.lang.Float) => a.equals(b)
    case _ => written == read
  }
}
