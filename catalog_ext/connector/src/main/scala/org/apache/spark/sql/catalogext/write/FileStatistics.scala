package org.apache.spark.sql.catalogext.write

import java.math.BigInteger
import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.orc.{BooleanColumnStatistics, ColumnStatistics, DateColumnStatistics, DecimalColumnStatistics,
  DoubleColumnStatistics, IntegerColumnStatistics, OrcFile, StringColumnStatistics, TypeDescription}
import org.apache.orc.TypeDescription.Category
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation
import org.apache.parquet.schema.LogicalTypeAnnotation.{DateLogicalTypeAnnotation, DecimalLogicalTypeAnnotation,
  IntLogicalTypeAnnotation, TimeUnit, TimestampLogicalTypeAnnotation}

import org.apache.spark.sql.catalogext.catalog.PartitionNames
import org.apache.spark.sql.catalogext.release.Types
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * What a finished file says of its columns: the least and the greatest value, where the format gives them exactly, and
 * the number of NULLs.
 *
 * Left out are bounds of TIMESTAMP (their text depends on a session's zone), of BINARY, of long strings, and whatever
 * a format cuts short or cannot order, such as NaN.
 */
object FileStatistics {
  private val LongestText = 256
  private val FirstGregorianDay = -141427L // 1582-10-15
  private val TruncateLength = "parquet.statistics.truncate.length"

  private case class Column(minimum: Option[Any], maximum: Option[Any], nulls: Option[Long])

  /** Of the columns of `schema`, which may be a part of the file's; nothing of formats without footers. */
  def read(format: String, path: Path, conf: Configuration, schema: StructType): JsonNode =
    if (schema.isEmpty) obj() else counted(format, path, conf, schema).fold(obj())(_._2)

  /** The rows of a file, and what `read` says of it, which is opened once; None of formats without footers. */
  def counted(format: String, path: Path, conf: Configuration, schema: StructType): Option[(Long, ObjectNode)] = {
    val found = format match {
      case "parquet" =>
        val groups = parquetGroups(path, conf)
        Some((groups.map(_.getRowCount).sum, parquet(groups, conf, schema)))
      case "orc" => Some(orc(path, conf, schema))
      case _ => None
    }
    found.map { case (rows, columns) =>
      (rows, obj(schema.flatMap(field => columns.get(field.name).map(field.name -> json(_, field.dataType))): _*))
    }
  }

  private def json(column: Column, dataType: DataType): JsonNode = {
    val bounds = for {
      minimum <- column.minimum.flatMap(canonical(_, dataType))
      maximum <- column.maximum.flatMap(canonical(_, dataType))
    } yield (minimum, maximum)
    obj("min" -> text(bounds.map(_._1)), "max" -> text(bounds.map(_._2)), "nulls" -> column.nulls.fold(Null)(long))
  }

  // Bytes that are no text would be kept as another character, which has another place in the order.
  private def canonical(value: Any, dataType: DataType): Option[String] = {
    val shown = PartitionNames.text(Literal(value, dataType), "UTC").eval().toString
    Option.when(shown.length <= LongestText && shown.indexOf('\uFFFD') < 0)(shown)
  }

  private def parquetGroups(path: Path, conf: Configuration): Seq[BlockMetaData] = {
    val options = HadoopReadOptions.builder(conf, path).build()
    val reader = ParquetFileReader.open(HadoopInputFile.fromPath(path, conf), options)
    try reader.getRowGroups.asScala.toSeq finally reader.close()
  }

  private def parquet(groups: Seq[BlockMetaData], conf: Configuration, schema: StructType): Map[String, Column] = {
    val wanted = schema.fieldNames.toSet
    val chunks = groups.flatMap(_.getColumns.asScala)
      .filter(chunk => chunk.getPath.size == 1 && wanted(chunk.getPath.toArray.head))
      .groupBy(_.getPath.toArray.head)
    val cut = conf.getInt(TruncateLength, Int.MaxValue) != Int.MaxValue
    (for {
      field <- schema
      parts <- chunks.get(field.name)
      if field.dataType.isInstanceOf[AtomicType] && parts.length == groups.length
    } yield field.name -> merged(parts.map { chunk =>
      val statistics = chunk.getStatistics
      val bounded = statistics != null && statistics.hasNonNullValue && !(cut && statistics.genericGetMin.isInstanceOf[Binary])
      def bound(raw: => Any) =
        if (bounded) value(raw, Option(chunk.getPrimitiveType.getLogicalTypeAnnotation), field.dataType) else None
      Column(
        bound(statistics.genericGetMin),
        bound(statistics.genericGetMax),
        Option.when(statistics != null && statistics.isNumNullsSet)(statistics.getNumNulls))
    }, parts.map(_.getValueCount), field.dataType)).toMap
  }

  /** Of several row groups; one that holds NULLs alone has no bounds, and takes none away. */
  private def merged(columns: Seq[Column], counts: Seq[Long], dataType: DataType): Column = {
    val filled = columns.zip(counts).collect { case (column, count) if !column.nulls.contains(count) => column }
    val order: Ordering[Any] = TypeUtils.getInterpretedOrdering(dataType)
    def bound(of: Column => Option[Any], least: Boolean): Option[Any] = {
      val values = filled.map(of)
      Option.when(values.nonEmpty && values.forall(_.isDefined))(
        if (least) values.flatten.min(order) else values.flatten.max(order))
    }
    Column(bound(_.minimum, least = true), bound(_.maximum, least = false),
      Option.when(columns.forall(_.nulls.isDefined))(columns.flatMap(_.nulls).sum))
  }

  /**
   * Parquet's value as Spark's readers give it. None where they convert it otherwise than bounds are: the table has
   * decimals of another scale, shorter integers, or times of another unit than the file.
   */
  private def value(raw: Any, in: Option[LogicalTypeAnnotation], dataType: DataType): Option[Any] = (dataType, raw) match {
    case (BooleanType, v: java.lang.Boolean) => Some(v.booleanValue)
    case (_: IntegralType, v: Integer) if isSigned(in) && dataType != LongType => integer(v.longValue, dataType)
    case (LongType, v: java.lang.Long) if isSigned(in) => Some(v.longValue)
    case (DateType, v: Integer) if in.exists(_.isInstanceOf[DateLogicalTypeAnnotation]) => day(v.longValue)
    case (TimestampNTZType, v: java.lang.Long) if in.exists(isLocalMicros) => Some(v.longValue)
    case (FloatType, v: java.lang.Float) if !v.isNaN => Some(v.floatValue + 0.0f)
    case (DoubleType, v: java.lang.Double) if !v.isNaN => Some(v.doubleValue + 0.0)
    case (d: DecimalType, v: Integer) if in.exists(fits(_, d)) => Some(Decimal(v.longValue, d.precision, d.scale))
    case (d: DecimalType, v: java.lang.Long) if in.exists(fits(_, d)) => Some(Decimal(v.longValue, d.precision, d.scale))
    case (d: DecimalType, v: Binary) if in.exists(fits(_, d)) =>
      Some(Decimal(new java.math.BigDecimal(new BigInteger(v.getBytes), d.scale), d.precision, d.scale))
    case (s: StringType, v: Binary) if s.isUTF8BinaryCollation => Some(UTF8String.fromBytes(v.getBytes))
    case _ => None
  }

  // Short unsigned numbers are in integers that have room for them.
  private def isSigned(in: Option[LogicalTypeAnnotation]): Boolean = in.forall {
    case number: IntLogicalTypeAnnotation => number.isSigned || number.getBitWidth < Integer.SIZE
    case _ => false
  }

  private def isLocalMicros(in: LogicalTypeAnnotation): Boolean = in match {
    case time: TimestampLogicalTypeAnnotation => !time.isAdjustedToUTC && time.getUnit == TimeUnit.MICROS
    case _ => false
  }

  private def fits(in: LogicalTypeAnnotation, d: DecimalType): Boolean = in match {
    case decimal: DecimalLogicalTypeAnnotation => decimal.getScale == d.scale && decimal.getPrecision <= d.precision
    case _ => false
  }

  /** Readers cut off what does not fit; where both bounds fit, so does everything between them. */
  private def integer(value: Long, dataType: DataType): Option[Any] = dataType match {
    case ByteType if value.isValidByte => Some(value.toByte)
    case ShortType if value.isValidShort => Some(value.toShort)
    case IntegerType if value.isValidInt => Some(value.toInt)
    case _ => None
  }

  private def orc(path: Path, conf: Configuration, schema: StructType): (Long, Map[String, Column]) = {
    val reader = OrcFile.createReader(path, OrcFile.readerOptions(conf))
    try {
      val (rows, statistics) = (reader.getNumberOfRows, reader.getStatistics)
      val root = reader.getSchema
      val children = root.getFieldNames.asScala.zip(root.getChildren.asScala).toMap
      val columns = for {
        field <- schema
        child <- children.get(field.name).orElse(children.get(field.name.toLowerCase(Locale.ROOT)))
        if isReadAs(child, field.dataType)
      } yield field.name -> ofOrc(statistics(child.getId), field.dataType, rows)
      (rows, columns.toMap)
    } finally reader.close()
  }

  /** Whether readers give the values as they are: where they convert, what does not fit is NULL, and CHAR is unpadded. */
  private def isReadAs(in: TypeDescription, dataType: DataType): Boolean = (in.getCategory, dataType) match {
    case (Category.BOOLEAN, BooleanType) | (Category.DATE, DateType) | (Category.BINARY, BinaryType) => true
    case (Category.BYTE, ByteType | ShortType | IntegerType | LongType) => true
    case (Category.SHORT, ShortType | IntegerType | LongType) => true
    case (Category.INT, IntegerType | LongType) | (Category.LONG, LongType) => true
    case (Category.FLOAT, FloatType | DoubleType) | (Category.DOUBLE, DoubleType) => true
    case (Category.DECIMAL, d: DecimalType) => in.getScale == d.scale && in.getPrecision <= d.precision
    case (Category.STRING | Category.VARCHAR, _: StringType) => true
    case (Category.TIMESTAMP | Category.TIMESTAMP_INSTANT, TimestampType | TimestampNTZType) => true
    // What Spark writes as numbers: no bounds come of these, only how many are NULL.
    case (Category.LONG, TimestampNTZType | _: DayTimeIntervalType) => true
    case (Category.LONG, other) => Types.isTime(other)
    case (Category.INT, _: YearMonthIntervalType) => true
    case _ => false
  }

  private def ofOrc(statistics: ColumnStatistics, dataType: DataType, rows: Long): Column = {
    val (minimum, maximum) =
      if (statistics.getNumberOfValues == 0) (None, None) else bounds(statistics, dataType)
    Column(minimum, maximum, Some(rows - statistics.getNumberOfValues))
  }

  private def bounds(statistics: ColumnStatistics, dataType: DataType): (Option[Any], Option[Any]) =
    (dataType, statistics) match {
      case (ByteType, s: IntegerColumnStatistics) => (Some(s.getMinimum.toByte), Some(s.getMaximum.toByte))
      case (ShortType, s: IntegerColumnStatistics) => (Some(s.getMinimum.toShort), Some(s.getMaximum.toShort))
      case (IntegerType, s: IntegerColumnStatistics) => (Some(s.getMinimum.toInt), Some(s.getMaximum.toInt))
      case (LongType, s: IntegerColumnStatistics) => (Some(s.getMinimum), Some(s.getMaximum))
      case (BooleanType, s: BooleanColumnStatistics) => (Some(s.getFalseCount == 0), Some(s.getTrueCount > 0))
      case (DateType, s: DateColumnStatistics) =>
        (day(s.getMinimumDayOfEpoch), day(s.getMaximumDayOfEpoch))
      // A sum that is NaN tells of a NaN among the values, which the bounds do not show.
      case (DoubleType, s: DoubleColumnStatistics) if !s.getSum.isNaN =>
        (Some(s.getMinimum + 0.0), Some(s.getMaximum + 0.0))
      case (FloatType, s: DoubleColumnStatistics) if !s.getSum.isNaN =>
        (Some((s.getMinimum + 0.0).toFloat), Some((s.getMaximum + 0.0).toFloat))
      case (d: DecimalType, s: DecimalColumnStatistics) =>
        (decimal(s.getMinimum.bigDecimalValue, d), decimal(s.getMaximum.bigDecimalValue, d))
      // A bound that was cut short is null here.
      case (t: StringType, s: StringColumnStatistics) if t.isUTF8BinaryCollation =>
        (Option(s.getMinimum).map(UTF8String.fromString), Option(s.getMaximum).map(UTF8String.fromString))
      case _ => (None, None)
    }

  /** Older dates may be counted in the Julian calendar, which the number alone does not tell. */
  private def day(value: Long): Option[Any] = Option.when(value >= FirstGregorianDay)(value.toInt)

  private def decimal(value: java.math.BigDecimal, d: DecimalType): Option[Any] =
    Some(Decimal(value.setScale(d.scale), d.precision, d.scale))
}
