package org.apache.spark.sql.catalogext.catalog

import java.util.{HashMap => JHashMap}

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Expression, GenericInternalRow, Literal}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types.{CharType, DataType, DoubleType, FloatType, StringType, StructField, StructType,
  VarcharType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Converts typed values to directory names: Spark's text of a value, with Hive's escaping (as
 * `metastore/model/partition_names.py` does).
 */
object PartitionNames {
  /** The text of a partition value in a directory name, before special characters are escaped. */
  def text(value: Expression, zone: String): Expression =
    // EvalMode.ANSI prints small DECIMAL values as Hive does; EvalMode.LEGACY would print 1E-18.
    Cast(normalized(value), StringType, Some(zone), EvalMode.ANSI)

  /**
   * The directory name `key=value` of a key and the text of its value. NULL and the empty text become the default
   * partition.
   */
  def component(key: StructField, text: String): String = {
    val value = if (text == null) "" else unpadded(key.dataType, text)
    s"${escape(key.name)}=${if (value.isEmpty) ExternalCatalogUtils.DEFAULT_PARTITION_NAME else escape(value)}"
  }

  /** CHAR values arrive padded. Paths and the index have them without padding. */
  def unpadded(dataType: DataType, text: String): String =
    if (dataType.isInstanceOf[CharType]) text.reverse.dropWhile(_ == ' ').reverse else text

  /** Hive's escaping. Spark's own function does not escape the character NUL. */
  def escape(text: String): String = {
    val escaped = ExternalCatalogUtils.escapePathName(text)
    if (escaped.indexOf(0) < 0) escaped else escaped.replace("\u0000", "%00")
  }

  // -0.0 equals 0.0, so they are one partition.
  private def normalized(value: Expression): Expression = value.dataType match {
    case FloatType | DoubleType => NormalizeNaNAndZero(value)
    case _ => value
  }
}

/**
 * Converts partition names (`ds=2025-01-01/region=a%20b`) to rows of typed values, with Spark's own Cast.
 *
 * An instance caches what it has cast, because a listing repeats few values many times. It must be used by one thread.
 *
 * @param schema the partition columns in the table's order, with their own types: trailing blanks of a CHAR, and excess
 *               characters of a VARCHAR, are removed
 * @param zone the time zone of TIMESTAMP values: the session's
 * @param lengths of the columns, by position, whose values are padded with blanks
 */
class PartitionValues(schema: StructType, zone: String, lengths: Map[Int, Int] = Map.empty) {
  private val types = schema.map(f => CharVarcharUtils.replaceCharVarcharWithString(f.dataType)).toArray
  private val known = Array.fill(types.length)(new JHashMap[String, Any]())

  /**
   * The row of typed values of a partition name. Raises a runtime error if the name lacks the table's keys, or a value
   * does not fit its type.
   */
  def parse(name: String): InternalRow = {
    val parts = if (name.isEmpty) Array.empty[String] else name.split('/')
    if (parts.length != types.length) throw wrongKeys(name)
    val values = new Array[Any](types.length)
    var i = 0
    while (i < parts.length) {
      val equals = parts(i).indexOf('=')
      if (equals < 0) throw wrongKeys(name)
      val raw = parts(i).substring(equals + 1)
      // Use containsKey, not get: the cache has null for values of the default partition.
      if (!known(i).containsKey(raw)) known(i).put(raw, typed(raw, i, name))
      values(i) = known(i).get(raw)
      i += 1
    }
    new GenericInternalRow(values)
  }

  private def typed(raw: String, index: Int, name: String): Any = {
    val text = PartitionValues.text(raw)
    val dataType = types(index)
    if (text == null) null
    else if (dataType.isInstanceOf[StringType]) {
      val fitted = PartitionValues.fitted(text, schema(index).dataType)
      lengths.get(index).fold(fitted)(fitted.rpad(_, PartitionValues.Blank))
    }
    else if (text.numBytes() == 0) null
    else cast(text, dataType).getOrElse(
      throw ConnectorErrors.runtime(ConnectorErrors.InvalidValue,
        s"The value '$text' of partition '$name' is no ${dataType.sql}; repair the table, or correct the type of " +
          s"column '${schema(index).name}'.", Map("partition" -> name, "value" -> text.toString)))
  }

  private def cast(text: UTF8String, dataType: DataType): Option[Any] =
    Option(Cast(Literal(text, StringType), dataType, Some(zone), EvalMode.TRY).eval())

  private def wrongKeys(name: String): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"The service gave the partition name '$name' for a table with the keys ${schema.fieldNames.mkString(", ")}.",
      Map("partition" -> name))
}

object PartitionValues {
  private val Blank = UTF8String.fromString(" ")

  // The value as the index stores it, without a CHAR's trailing blanks or a VARCHAR's excess characters. Otherwise
  // filters that the index evaluates would see other values than the rows have.
  private def fitted(text: UTF8String, dataType: DataType): UTF8String = dataType match {
    case _: CharType => text.trimRight()
    case varchar: VarcharType if text.numChars() > varchar.length => text.trimRight()
    case _ => text
  }

  /** The unescaped value in a directory name; null for the default partition. */
  def text(raw: String): UTF8String =
    if (raw == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) null
    else UTF8String.fromString(ExternalCatalogUtils.unescapePathName(raw))
}
