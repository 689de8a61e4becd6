package org.apache.spark.sql.catalogext.write

import java.math.BigInteger

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation.{DateLogicalTypeAnnotation, DecimalLogicalTypeAnnotation,
  IntLogicalTypeAnnotation, TimestampLogicalTypeAnnotation, TimeUnit}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.parquet.schema.{LogicalTypeAnnotation, PrimitiveType, Type}

import org.apache.spark.sql.catalogext.release.Types
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Reads the statistics of Parquet's row groups. Parquet's library drops bounds with the wrong order and those of
 * PARQUET-251; [[ParquetWriter]] drops wrong NULL counts.
 */
private[write] object ParquetFooter {
  private val TruncateLength = "parquet.statistics.truncate.length"

  /** The number of rows of a file, and the statistics of those of its top-level columns that are in `schema`. */
  def measured(file: FileStatus, conf: Configuration, schema: StructType): (Long, Map[String, MeasuredColumn]) = {
    // Do not use the string bounds of old writers, which were ordered by signed bytes: this setting would only guess
    // whether they are usable.
    val options = HadoopReadOptions.builder(conf, file.getPath).useSignedStringMinMax(false).build()
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf), options)
    try {
      val (groups, metadata) = (reader.getRowGroups.asScala.toSeq, reader.getFileMetaData)
      val writer = new ParquetWriter(metadata.getCreatedBy)
      val fields = metadata.getSchema.getFields.asScala.toSeq.map(field => field.getName -> field)
      val cut = conf.getInt(TruncateLength, Int.MaxValue) != Int.MaxValue
      val columns = for {
        field <- schema
        in <- MeasuredColumn.find(field.name, fields)
        if in.isPrimitive && !in.isRepetition(Type.Repetition.REPEATED) && isReadAs(in.asPrimitiveType, field.dataType)
        parts <- chunks(in.getName, groups)
      } yield field.name -> MeasuredColumn.merged(parts.map { chunk =>
        (column(chunk, field.dataType, writer, cut), chunk.getValueCount)
      }, field.dataType)
      (groups.map(_.getRowCount).sum, columns.toMap)
    } finally reader.close()
  }

  /**
   * The column's chunk in each row group. None if a row group lacks the column, or if the chunk does not have one value
   * or NULL per row (nested columns).
   */
  private def chunks(name: String, groups: Seq[BlockMetaData]): Option[Seq[ColumnChunkMetaData]] = {
    val found = groups.map(group => group -> group.getColumns.asScala.filter { chunk =>
      chunk.getPath.size == 1 && chunk.getPath.toArray.head == name
    })
    Option.when(groups.nonEmpty && found.forall { case (group, chunks) =>
      chunks.length == 1 && chunks.head.getValueCount == group.getRowCount
    })(found.map(_._2.head))
  }

  private def column(
      chunk: ColumnChunkMetaData, dataType: DataType, writer: ParquetWriter, cut: Boolean): MeasuredColumn = {
    val statistics = chunk.getStatistics
    if (statistics == null) MeasuredColumn.Unknown
    else {
      val hasBounds = statistics.hasNonNullValue
      def bound(raw: => Any) =
        if (!hasBounds || cut && statistics.genericGetMin.isInstanceOf[Binary]) None
        else value(raw, chunk.getPrimitiveType, dataType)
      val nulls = Option.when(statistics.isNumNullsSet)(statistics.getNumNulls)
        .filter(writer.countsRightly(_, chunk.getValueCount, chunk.getPrimitiveType.getPrimitiveTypeName == BINARY, hasBounds))
      // A chunk with bounds, even unusable ones, has values other than NULL. If its NULL count says otherwise, nothing
      // of it is used.
      if (hasBounds && nulls.contains(chunk.getValueCount)) MeasuredColumn.Unknown
      else MeasuredColumn(bound(statistics.genericGetMin), bound(statistics.genericGetMax), nulls)
    }
  }

  /**
   * Whether readers return a value for each stored value. When converting to a narrower type, some readers return NULL
   * for values that do not fit, which the footer does not count.
   */
  private def isReadAs(in: PrimitiveType, dataType: DataType): Boolean = {
    val annotation = Option(in.getLogicalTypeAnnotation)
    (in.getPrimitiveTypeName, dataType) match {
      case (BOOLEAN, BooleanType) => true
      case (INT32, ByteType | ShortType | IntegerType | LongType | DoubleType) => isSigned(annotation)
      case (INT32, DateType) => annotation.exists(_.isInstanceOf[DateLogicalTypeAnnotation])
      case (INT64, LongType) => isSigned(annotation)
      case (INT64 | INT96, TimestampType | TimestampNTZType) => true
      case (FLOAT, FloatType | DoubleType) | (DOUBLE, DoubleType) => true
      case (INT32 | INT64 | BINARY | FIXED_LEN_BYTE_ARRAY, d: DecimalType) => annotation.exists(fits(_, d))
      case (BINARY, _: StringType | BinaryType) | (FIXED_LEN_BYTE_ARRAY, BinaryType) => true
      case (INT32, _: YearMonthIntervalType) | (INT64, _: DayTimeIntervalType) => true
      case (INT64, other) => Types.isTime(other)
      case _ => false
    }
  }

  /**
   * Parquet's value as Spark's readers return it. None if they convert it differently from its bounds: integers of
   * another width, or times of another unit.
   */
  private def value(raw: Any, in: PrimitiveType, dataType: DataType): Option[Any] = (dataType, raw) match {
    case (BooleanType, v: java.lang.Boolean) => Some(v.booleanValue)
    case (_: IntegralType, v: Integer) if dataType != LongType => MeasuredColumn.integer(v.longValue, dataType)
    case (LongType, v: java.lang.Long) => Some(v.longValue)
    case (DateType, v: Integer) => MeasuredColumn.day(v.longValue)
    case (TimestampNTZType, v: java.lang.Long) if isLocalMicros(in.getLogicalTypeAnnotation) => Some(v.longValue)
    case (FloatType, v: java.lang.Float) if !v.isNaN => Some(v.floatValue + 0.0f)
    case (DoubleType, v: java.lang.Double) if !v.isNaN => Some(v.doubleValue + 0.0)
    case (d: DecimalType, v: Integer) => MeasuredColumn.decimal(unscaled(BigInteger.valueOf(v.longValue), d), d)
    case (d: DecimalType, v: java.lang.Long) => MeasuredColumn.decimal(unscaled(BigInteger.valueOf(v.longValue), d), d)
    // Only decimals of fixed length: parquet-rs truncates bounds of variable-length bytes, and a truncated decimal is
    // another number.
    case (d: DecimalType, v: Binary) if in.getPrimitiveTypeName == FIXED_LEN_BYTE_ARRAY =>
      MeasuredColumn.decimal(unscaled(new BigInteger(v.getBytes), d), d)
    case (s: StringType, v: Binary) if s.isUTF8BinaryCollation => Some(UTF8String.fromBytes(v.getBytes))
    case _ => None
  }

  private def unscaled(value: BigInteger, d: DecimalType) = new java.math.BigDecimal(value, d.scale)

  // Whether a stored integer has the value's sign. Small unsigned numbers are stored in signed integers that are wide
  // enough, so they count as signed.
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
}

/**
 * The known faults of the writer in a Parquet file's `created_by`. Parquet's own `CorruptStatistics` covers bounds
 * only; these writers count NULLs wrongly.
 */
private[write] class ParquetWriter(createdBy: String) {
  private val (application, version) = createdBy match {
    case ParquetWriter.Versioned(name, major, minor) => (name, Some((major.toInt, minor.toInt)))
    case other => (Option(other).getOrElse("").trim, None)
  }

  private def isBefore(major: Int, minor: Int): Boolean =
    version.forall { case (ours, part) => ours < major || ours == major && part < minor }

  private def isOf(names: String*): Boolean = names.exists(application.toLowerCase(java.util.Locale.ROOT).startsWith(_))

  /**
   * Whether a chunk's NULL count is reliable.
   *
   * @param isBytes whether the column is BYTE_ARRAY
   * @param hasBounds whether the chunk has a minimum and a maximum
   */
  def countsRightly(nulls: Long, values: Long, isBytes: Boolean, hasBounds: Boolean): Boolean =
    if (application.isEmpty) false
    // PARQUET-1217: before 1.10, a missing count was read as 0, and written as 0 when row groups were copied.
    else if (application == "parquet-mr") nulls != 0 || !isBefore(1, 10)
    // ARROW-12513: the count is always 0 for columns that were dictionaries in memory.
    else if (isOf("parquet-cpp") && isBytes && nulls == 0 && isBefore(6, 0)) false
    // pola-rs/polars#29321: the count of each page includes the NULLs of all pages before. This also affects releases
    // without a version number.
    else if (isOf("polars", "arrow2") && nulls != 0 && (isOf("arrow2") || isBefore(2, 1))) false
    // apache/arrow-go#489, parquet-go/parquet-go#373, hangxie/parquet-tools#205: the count is too small, or negative.
    else if (application.contains("parquet-go")) false
    // apache/arrow-rs#306: the count is 0 if all values are NULL, so use 0 only if a bound shows a value. Writers other
    // than parquet-mr may omit bounds.
    else nulls != 0 || hasBounds || values == 0
}

private object ParquetWriter {
  private val Versioned = """\s*(.*?)\s+version\s+v?(\d{1,6})\.(\d{1,6}).*""".r
}
