package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, FilterFileSystem, FSDataInputStream, Path}
import org.apache.hadoop.util.functional.FutureIO
import org.apache.orc.{BooleanColumnStatistics, ColumnStatistics, DateColumnStatistics, DecimalColumnStatistics,
  DoubleColumnStatistics, IntegerColumnStatistics, OrcFile, OrcProto, Reader, StringColumnStatistics, TypeDescription}
import org.apache.orc.OrcFile.{WriterImplementation, WriterVersion}
import org.apache.orc.TypeDescription.Category

import org.apache.spark.sql.catalogext.release.Types
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Reads the statistics in an ORC file's footer. ORC's library returns 0, or the largest number, for a missing
 * statistic, so the protobuf footer itself is checked first.
 */
private[write] object OrcFooter {
  /** The number of rows of a file, and the statistics of those of its top-level columns that are in `schema`. */
  def measured(file: FileStatus, conf: Configuration, schema: StructType): (Long, Map[String, MeasuredColumn]) = {
    val store = new KnownFile(file.getPath.getFileSystem(conf), file)
    val reader = OrcFile.createReader(file.getPath, OrcFile.readerOptions(conf).filesystem(store))
    try {
      // Add up the rows of the stripes, as readers do; the footer's own sum may be wrong.
      val rows = reader.getStripes.asScala.map(_.getNumberOfRows).sum
      (rows, if (isTrusted(reader, rows)) columns(reader, rows, schema) else Map.empty)
    } finally reader.close()
  }

  /**
   * Whether the file's writer counted the rows of every column. With `orc.create.index=false` it counts nothing and
   * writes 0; in merged files, stripes of such files are missing from the root's count.
   */
  private def isTrusted(reader: Reader, rows: Long): Boolean = {
    val footer = reader.getFileTail.getFooter
    val root = reader.getSchema
    val isCounted = footer.getStatisticsCount == root.getMaximumId + 1 && footer.getNumberOfRows == rows &&
      footer.getStatistics(0).hasNumberOfValues && footer.getStatistics(0).getNumberOfValues == rows
    // Do not use statistics of an encrypted file: they are those of the masked values.
    isCounted && !footer.hasEncryption && !isByPosition(root) && !isFaulty(reader.getWriterVersion)
  }

  /**
   * Whether the file has columns without names (`_col0`), as old releases of Hive wrote. Readers match them by
   * position, so statistics by name are not usable.
   */
  private def isByPosition(root: TypeDescription): Boolean = root.getFieldNames.asScala.forall(_.startsWith("_col"))

  /**
   * Whether the writer's bounds are wrong. HIVE-8732: wrong bounds. cuDF wrote wrong bounds of booleans, and a wrong
   * hasNull for all columns (cudf#13817).
   */
  private def isFaulty(version: WriterVersion): Boolean =
    !version.includes(WriterVersion.HIVE_8732) || version.getWriterImplementation == WriterImplementation.CUDF

  private def columns(reader: Reader, rows: Long, schema: StructType): Map[String, MeasuredColumn] = {
    val (footer, statistics, root) = (reader.getFileTail.getFooter, reader.getStatistics, reader.getSchema)
    val children = root.getFieldNames.asScala.toSeq.zip(root.getChildren.asScala)
    (for {
      field <- schema
      child <- MeasuredColumn.find(field.name, children)
      if isReadAs(child, field.dataType) && !isFaultyDecimal(child, reader.getWriterVersion)
    } yield {
      val written = footer.getStatistics(child.getId)
      field.name -> column(written, statistics(child.getId), field.dataType, rows)
    }).toMap
  }

  /**
   * Whether the writer's statistics of decimals are wrong. ORC-517: wrong bounds of short decimals. HIVE-13083: NULLs
   * of decimals are missing.
   */
  private def isFaultyDecimal(in: TypeDescription, version: WriterVersion): Boolean =
    in.getCategory == Category.DECIMAL && (version == WriterVersion.ORC_135 || !version.includes(WriterVersion.HIVE_13083))

  /**
   * Whether readers return the stored values unchanged. With a conversion, values that do not fit become NULL, and CHAR
   * is unpadded.
   */
  private def isReadAs(in: TypeDescription, dataType: DataType): Boolean = (in.getCategory, dataType) match {
    case (Category.BOOLEAN, BooleanType) | (Category.DATE, DateType) | (Category.BINARY, BinaryType) => true
    case (Category.BYTE, ByteType | ShortType | IntegerType | LongType) => true
    case (Category.SHORT, ShortType | IntegerType | LongType) => true
    case (Category.INT, IntegerType | LongType) | (Category.LONG, LongType) => true
    case (Category.FLOAT, FloatType | DoubleType) | (Category.DOUBLE, DoubleType) => true
    case (Category.DECIMAL, d: DecimalType) => in.getScale == d.scale && in.getPrecision <= d.precision
    case (Category.STRING | Category.VARCHAR, _: StringType) => true
    case (Category.TIMESTAMP | Category.TIMESTAMP_INSTANT, TimestampType | TimestampNTZType) => true
    // Spark writes these types as numbers, so their bounds are not usable, but their NULL counts are.
    case (Category.LONG, TimestampNTZType | _: DayTimeIntervalType) => true
    case (Category.LONG, other) => Types.isTime(other)
    case (Category.INT, _: YearMonthIntervalType) => true
    case _ => false
  }

  private def column(
      written: OrcProto.ColumnStatistics, statistics: ColumnStatistics, dataType: DataType, rows: Long): MeasuredColumn = {
    val values = written.getNumberOfValues
    val nulls = rows - values
    // Use a count that says that all values are NULL only if the writer also set hasNull.
    val isSuspect = !written.hasNumberOfValues || nulls < 0 || nulls > 0 && written.hasHasNull && !written.getHasNull ||
      values == 0 && rows > 0 && !written.hasHasNull
    if (isSuspect) MeasuredColumn.Unknown
    else {
      val (minimum, maximum) = if (values == 0) (None, None) else bounds(written, statistics, dataType)
      val known = Option.when(nulls > 0 || !written.hasHasNull || !written.getHasNull)(nulls)
      MeasuredColumn.merged(Seq((MeasuredColumn(minimum, maximum, known), rows)), dataType)
    }
  }

  private def bounds(
      written: OrcProto.ColumnStatistics, statistics: ColumnStatistics, dataType: DataType): (Option[Any], Option[Any]) =
    (dataType, statistics) match {
      case (_: IntegralType, s: IntegerColumnStatistics) if has(written.getIntStatistics) =>
        (MeasuredColumn.integer(s.getMinimum, dataType), MeasuredColumn.integer(s.getMaximum, dataType))
      case (BooleanType, s: BooleanColumnStatistics) if s.getTrueCount >= 0 && s.getFalseCount >= 0 =>
        (Some(s.getFalseCount == 0), Some(s.getTrueCount > 0))
      case (DateType, s: DateColumnStatistics) if has(written.getDateStatistics) =>
        (MeasuredColumn.day(s.getMinimumDayOfEpoch), MeasuredColumn.day(s.getMaximumDayOfEpoch))
      case (DoubleType, s: DoubleColumnStatistics) if has(written.getDoubleStatistics) =>
        (Some(s.getMinimum + 0.0), Some(s.getMaximum + 0.0))
      case (FloatType, s: DoubleColumnStatistics) if has(written.getDoubleStatistics) =>
        (Some((s.getMinimum + 0.0).toFloat), Some((s.getMaximum + 0.0).toFloat))
      case (d: DecimalType, s: DecimalColumnStatistics) =>
        (Option(s.getMinimum).flatMap(low => MeasuredColumn.decimal(low.bigDecimalValue, d)),
          Option(s.getMaximum).flatMap(high => MeasuredColumn.decimal(high.bigDecimalValue, d)))
      // If the writer has truncated a bound, the getter returns null.
      case (t: StringType, s: StringColumnStatistics) if t.isUTF8BinaryCollation =>
        (Option(s.getMinimum).map(UTF8String.fromString), Option(s.getMaximum).map(UTF8String.fromString))
      case _ => (None, None)
    }

  private def has(written: OrcProto.IntegerStatistics): Boolean = written.hasMinimum && written.hasMaximum

  private def has(written: OrcProto.DateStatistics): Boolean = written.hasMinimum && written.hasMaximum

  // Use the bounds of floating-point numbers only if the sum is not NaN: a NaN among the values does not show in the
  // bounds.
  private def has(written: OrcProto.DoubleStatistics): Boolean =
    written.hasMinimum && written.hasMaximum && written.hasSum && !written.getSum.isNaN
}

/**
 * A file system that does not ask the store again for the status of one file; ORC's reader does, and so does S3A when
 * it opens a file.
 */
private class KnownFile(store: FileSystem, file: FileStatus) extends FilterFileSystem(store) {
  override def getFileStatus(path: Path): FileStatus = if (path == file.getPath) file else super.getFileStatus(path)

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    if (path == file.getPath) FutureIO.awaitFuture(store.openFile(path).withFileStatus(file).build())
    else super.open(path, bufferSize)
}
