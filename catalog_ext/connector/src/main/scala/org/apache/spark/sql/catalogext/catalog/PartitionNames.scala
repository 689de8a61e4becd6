package org.apache.spark.sql.catalogext.catalog

import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Expression}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types.{CharType, DataType, DoubleType, FloatType, StringType, StructField}

/** How typed values become the names of directories: Hive's escaping of Spark's text (as `metastore/model/partition_names.py`). */
object PartitionNames {
  /** The text of a partition column's value, before it is escaped. */
  def text(value: Expression, zone: String): Expression =
    // ANSI's text of a small DECIMAL is plain, as Hive's is; LEGACY's would be 1E-18.
    Cast(normalized(value), StringType, Some(zone), EvalMode.ANSI)

  /** `key=value` of a text that `text` made; null, and a text without characters, is the default partition. */
  def component(key: StructField, text: String): String = {
    val value = if (text == null) "" else unpadded(key.dataType, text)
    s"${escape(key.name)}=${if (value.isEmpty) ExternalCatalogUtils.DEFAULT_PARTITION_NAME else escape(value)}"
  }

  /** CHAR values arrive padded, and are unpadded in paths and in the index. */
  def unpadded(dataType: DataType, text: String): String =
    if (dataType.isInstanceOf[CharType]) text.reverse.dropWhile(_ == ' ').reverse else text

  /** Hive's escaping; Spark's lacks the character NUL. */
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
