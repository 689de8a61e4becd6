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
 * The statistics in the footer of a finished file: the least and the greatest value of its columns, where the format gives
 * them exactly, and the number of NULLs. `docs/design/14-statistics.md` says which statistics are unknown, and why.
 *
 * Left out are bounds of TIMESTAMP (their text depends on a session's zone), of BINARY, of long strings, and whatever
 * a format cuts short or cannot order, such as NaN.
 */
object FileStatistics {
  /** The columns of `schema`, which may be a part of the file's; nothing of formats without footers. */
  def read(format: String, path: Path, conf: Configuration, schema: StructType): JsonNode =
    if (schema.isEmpty) obj()
    else counted(format, path.getFileSystem(conf).getFileStatus(path), conf, schema).fold(obj())(_._2)

  /**
   * The rows of a file, and the statistics that `read` returns, in one opening; None of formats without footers. A column
   * that is left out is unknown, and so is a statistic that is null. The store is not asked for the file's status
   * again.
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
 * The statistics of one column in one file, or in one part of it. None is unknown, which is neither zero nor NULL: an
 * unknown statistic leaves no file out and answers no query.
 *
 * @param minimum a bound: no value is less; None also where every value is NULL
 * @param nulls how many values are NULL, exactly
 */
private[write] case class MeasuredColumn(minimum: Option[Any], maximum: Option[Any], nulls: Option[Long]) {
  def isUnknown: Boolean = this == MeasuredColumn.Unknown

  private def isAllNull(values: Long): Boolean = nulls.contains(values)

  /** Whether the statistics cannot all be true of so many values, so that none of them is to be trusted. */
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
   * The statistics of a file by those of its parts, each with its number of values (NULLs count). One part without a
   * statistic makes it unknown of the file. A part that holds NULLs alone has no bounds, and takes none away.
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
   * The column of the file that Spark's readers take for a column of the table, whatever the case of its letters. None
   * where the file has none of the name, or several, of which readers raise an error.
   */
  def find[T](name: String, columns: Seq[(String, T)]): Option[T] =
    columns.filter(_._1.equalsIgnoreCase(name)) match {
      case Seq((_, found)) => Some(found)
      case _ => None
    }

  /** Readers cut off what does not fit; where both bounds fit, so does everything between them. */
  def integer(value: Long, dataType: DataType): Option[Any] = dataType match {
    case ByteType if value.isValidByte => Some(value.toByte)
    case ShortType if value.isValidShort => Some(value.toShort)
    case IntegerType if value.isValidInt => Some(value.toInt)
    case LongType => Some(value)
    case _ => None
  }

  /** Older dates may be counted in the Julian calendar, which the number alone does not say. */
  def day(value: Long): Option[Any] = Option.when(value >= FirstGregorianDay)(value.toInt)

  def decimal(value: java.math.BigDecimal, d: DecimalType): Option[Any] = {
    val plain = value.stripTrailingZeros
    val digits = plain.precision - plain.scale + d.scale
    Option.when(plain.scale <= d.scale && digits <= d.precision)(Decimal(plain.setScale(d.scale), d.precision, d.scale))
  }

  // Bytes that are no text would be kept as another character, which has another place in the order.
  private def canonical(value: Any, dataType: DataType): Option[String] = {
    val shown = PartitionNames.text(Literal(value, dataType), "UTC").eval().toString
    Option.when(shown.length <= LongestText && shown.indexOf('\uFFFD') < 0)(shown)
  }
}
