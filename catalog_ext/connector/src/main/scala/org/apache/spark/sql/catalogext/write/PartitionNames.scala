package org.apache.spark.sql.catalogext.write

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types.{DoubleType, FloatType, StringType}

/** Makes the partition's name of a row, and refuses values that no directory can stand for. */
class PartitionNames(job: WriteJob) {
  import PartitionNames._

  private val keys = job.keys.toArray
  private val prefixes = keys.map(key => s"${escape(key.name)}=")
  private val texts = UnsafeProjection.create(
    job.keys.map(key => Cast(normalized(key.attribute), StringType, Some(job.zone), EvalMode.LEGACY): Expression),
    job.allColumns)

  // -0.0 equals 0.0, so they are one partition.
  private def normalized(e: Expression): Expression = e.dataType match {
    case FloatType | DoubleType => NormalizeNaNAndZero(e)
    case _ => e
  }

  def of(row: InternalRow): String = {
    val values = texts(row)
    val name = new StringBuilder
    var i = 0
    while (i < keys.length) {
      if (i > 0) name.append('/')
      name.append(component(i, values))
      i += 1
    }
    name.toString
  }

  private def component(i: Int, values: UnsafeRow): String = {
    val raw = if (values.isNullAt(i)) "" else values.getUTF8String(i).toString
    // CHAR values arrive padded, and are unpadded in paths.
    val text = if (keys(i).isChar) raw.reverse.dropWhile(_ == ' ').reverse else raw
    check(keys(i).name, text)
    val component = prefixes(i) + (if (text.isEmpty) ExternalCatalogUtils.DEFAULT_PARTITION_NAME else escape(text))
    if (!job.places.upload && component.getBytes(UTF_8).length > LongestComponent)
      throw WriteErrors.value(job.tableName, keys(i).name, text,
        s"makes a directory name of ${component.getBytes(UTF_8).length} bytes, and stores with directories take at " +
          s"most $LongestComponent; write a shorter value.")
    component
  }

  private def check(column: String, text: String): Unit = {
    if (text == ExternalCatalogUtils.DEFAULT_PARTITION_NAME)
      throw WriteErrors.value(job.tableName, column, text, "stands for NULL and cannot be a string; write NULL instead.")
    if (text.codePointCount(0, text.length) >= TooLong)
      throw WriteErrors.value(job.tableName, column, text,
        s"has ${text.codePointCount(0, text.length)} characters; the value length must be less than $TooLong characters.")
    if (job.hiveStrategy) text.find(Refused.indexOf(_) >= 0).foreach(c =>
      throw WriteErrors.value(job.tableName, column, text,
        s"has the special character '$c', which partition_strategy = 'hive' refuses (${Refused.mkString(" ")})."))
  }
}

object PartitionNames {
  private val LongestComponent = 255
  private val TooLong = 1024
  private val Refused = "{}\\/\"'*?"

  /** Hive's escaping; Spark's lacks the character NUL. */
  def escape(text: String): String = {
    val escaped = ExternalCatalogUtils.escapePathName(text)
    if (escaped.indexOf(0) < 0) escaped else escaped.replace("\u0000", "%00")
  }
}
