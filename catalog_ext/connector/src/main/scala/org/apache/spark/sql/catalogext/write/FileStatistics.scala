package org.apache.spark.sql.catalogext.write

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalogext.catalog.PartitionNames
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types._

/**
 * The statistics in the footer of a finished file: minimum and maximum of its columns, if the format has exact values,
 * and NULL counts. `docs/design/14-statistics.md` lists the statistics that are unknown, with reasons.
 *
 * Not included are bounds of TIMESTAMP (their text depends on the session's time zone), of BINARY, of long strings, and
 * bounds that a format truncates or cannot order, such as NaN.
 */
object FileStatistics {
  /**
   * The statistics of the columns in `schema`, which may be only some of the file's columns; empty for formats without
   * footers.
   */
  def read(format: String, path: Path, conf: Configuration, schema: StructType): JsonNode =
    if (schema.isEmpty) obj()
    else counted(format, path.getFileSystem(conf).getFileStatus(path), conf, schema).fold(obj())(_._2)

  /**
   * The row count of a file, and the statistics of `read`, from one opening; None for formats without footers. A
   * missing column is unknown, and so is a null statistic. The store is not asked for the file's status again.
   */
  def counted(
      format: String,
      file: => FileStatus,
      conf: Configuration,
      schema: StructType): Option[(Long, ObjectNode)] = {
    val measured = format match {
      case "parquet" => Some(ParquetFooter.measured(file, conf, schema))
      case "orc" => Some(OrcFooter.measured(file, conf, schema))
      case _ => None
    }
    measured.map { case (rows, columns) =>
      val known = schema.flatMap(field => columns.get(field.name).filterNot(_.isUnknown).map(field -> _))
      (rows, obj(known.map { case (field, column) => field.name -> column.json(field.dataType) }: _*))
    }
  }
}

/**
 * The statistics of one column in one file, or in a part of it. None means unknown, which is neither zero nor NULL: an
 * unknown statistic never skips a file and answers no query.
 *
 * @param minimum a lower bound of all values; None also if every value is NULL
 * @param nulls the exact number of NULLs
 */
private[write] case class MeasuredColumn(minimum: Option[Any], maximum: Option[Any], nulls: Option[Long]) {
  def isUnknown: Boolean = this == MeasuredColumn.Unknown

  private def isAllNull(values: Long): Boolean = nulls.contains(values)

  /** Whether the statistics contradict each other or the number of values. Then none of them is used. */
  private def contradicts(values: Long, order: Ordering[Any]): Boolean =
    nulls.exists(count => count < 0 || count > values) ||
      isAllNull(values) && (minimum.isDefined || maximum.isDefined) ||
      minimum.exists(low => maximum.exists(high => order.gt(low, high)))

  def json(dataType: DataType): JsonNode = {
    val bounds = for {
      low <- minimum.flatMap(MeasuredColumn.canonical(_, dataType))
      high <- maximum.flatMap(MeasuredColumn.canonical(_, dataType))
    } yield (low, high)
    obj("min" -> text(bounds.map(_._1)), "max" -> text(bounds.map(_._2)), "nulls" -> nulls.fold(Null)(long))
  }
}

private[write] object MeasuredColumn {
  val Unknown: MeasuredColumn = MeasuredColumn(None, None, None)

  private val LongestText = 256
  private val FirstGregorianDay = -141427L // 1582-10-15

  /**
   * Merges the statistics of a file's parts, each with its number of values (NULLs included). If one part lacks a
   * statistic, it is unknown for the file. A part with only NULLs has no bounds and does not affect them.
   */
  def merged(parts: Seq[(MeasuredColumn, Long)], dataType: DataType): MeasuredColumn = {
    val order: Ordering[Any] = TypeUtils.getInterpretedOrdering(dataType)
    if (parts.exists { case (part, values) => part.contradicts(values, order) }) Unknown
    else {
      val filled = parts.collect { case (part, values) if !part.isAllNull(values) => part }
      def bound(of: MeasuredColumn => Option[Any], least: Boolean): Option[Any] = {
        val values = filled.map(of)
        Option.when(values.nonEmpty && values.forall(_.isDefined))(
          if (least) values.flatten.min(order) else values.flatten.max(order))
      }
      val nulls = Option.when(parts.forall(_._1.nulls.isDefined))(parts.flatMap(_._1.nulls).sum)
      MeasuredColumn(bound(_.minimum, least = true), bound(_.maximum, least = false), nulls)
    }
  }

  /**
   * The column of the file that Spark's readers use for a column of the table, ignoring case. None if no name matches,
   * or several do, for which readers raise an error.
   */
  def find[T](name: String, columns: Seq[(String, T)]): Option[T] =
    columns.filter(_._1.equalsIgnoreCase(name)) match {
      case Seq((_, found)) => Some(found)
      case _ => None
    }

  /**
   * The value as a number of the column's type; None if it does not fit, because readers would truncate it. If both
   * bounds of a column fit, all values between them fit.
   */
  def integer(value: Long, dataType: DataType): Option[Any] = dataType match {
    case ByteType if value.isValidByte => Some(value.toByte)
    case ShortType if value.isValidShort => Some(value.toShort)
    case IntegerType if value.isValidInt => Some(value.toInt)
    case LongType => Some(value)
    case _ => None
  }

  /**
   * The value as a date. None for dates before the Gregorian calendar: they may be in the Julian calendar, which the
   * number does not show.
   */
  def day(value: Long): Option[Any] = Option.when(value >= FirstGregorianDay)(value.toInt)

  def decimal(value: java.math.BigDecimal, d: DecimalType): Option[Any] = {
    val plain = value.stripTrailingZeros
    val digits = plain.precision - plain.scale + d.scale
    Option.when(plain.scale <= d.scale && digits <= d.precision)(Decimal(plain.setScale(d.scale), d.precision, d.scale))
  }

  // No bound with invalid UTF-8: it would be stored as the replacement character, which is ordered differently.
  private def canonical(value: Any, dataType: DataType): Option[String] = {
    val shown = PartitionNames.text(Literal(value, dataType), "UTC").eval().toString
    Option.when(shown.length <= LongestText && shown.indexOf('\uFFFD') < 0)(shown)
  }
}
