package org.apache.spark.sql.catalogext.write

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalogext.catalog.PartitionNames
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SortPrefixUtils, UnsafeExternalRowSorter}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Computes the partition name of a row, and rejects values that cannot be a directory name.
 *
 * @param input the columns of the rows
 * @param zone the time zone of TIMESTAMP values: the session's
 * @param directories whether the store has directories, whose names have a maximum length
 * @param hiveStrategy whether `partition_strategy` is `hive`, which rejects some characters
 */
class RowPartitioner(
    tableName: String,
    keys: Seq[PartitionKey],
    input: Seq[Attribute],
    zone: String,
    directories: Boolean,
    hiveStrategy: Boolean) {
  import RowPartitioner._

  def this(job: WriteJob) =
    this(job.tableName, job.keys, job.allColumns, job.zone, directories = !job.stagingLocations.upload, job.hiveStrategy)

  private val fields = keys.map(_.field).toArray
  private val texts = UnsafeProjection.create(keys.map(key => PartitionNames.text(key.attribute, zone)), input)

  def of(row: InternalRow): String = {
    val values = texts(row)
    val name = new StringBuilder
    var i = 0
    while (i < fields.length) {
      if (i > 0) name.append('/')
      name.append(component(i, values))
      i += 1
    }
    name.toString
  }

  private def component(i: Int, values: UnsafeRow): String = {
    val field = fields(i)
    val text = if (values.isNullAt(i)) "" else PartitionNames.unpadded(field.dataType, valid(field.name, values.getUTF8String(i)))
    check(field.name, text)
    val component = PartitionNames.component(field, text)
    if (directories && component.getBytes(UTF_8).length > LongestComponent)
      throw WriteErrors.value(tableName, field.name, text,
        s"makes a directory name of ${component.getBytes(UTF_8).length} bytes, and stores with directories take at " +
          s"most $LongestComponent; write a shorter value.")
    component
  }

  private def valid(column: String, text: UTF8String): String =
    if (text.isValid) text.toString
    else throw WriteErrors.value(tableName, column, text.toString,
      "has bytes that are no UTF-8, which no directory's name can have; write another value, such as hex(...) of it.")

  private def check(column: String, text: String): Unit = {
    if (text == ExternalCatalogUtils.DEFAULT_PARTITION_NAME)
      throw WriteErrors.value(tableName, column, text, "stands for NULL and cannot be a string; write NULL instead.")
    if (text.codePointCount(0, text.length) >= TooLong)
      throw WriteErrors.value(tableName, column, text,
        s"has ${text.codePointCount(0, text.length)} characters; the value length must be less than $TooLong characters.")
    if (hiveStrategy) text.find(Refused.indexOf(_) >= 0).foreach(c =>
      throw WriteErrors.value(tableName, column, text,
        s"has the special character '$c', which partition_strategy = 'hive' refuses (${Refused.mkString(" ")})."))
  }
}

object RowPartitioner {
  private val LongestComponent = 255
  private val TooLong = 1024
  private val Refused = "{}\\/\"'*?"
}

/** Sorts a task's rows by partition, with Spark's external sort, which spills to disk. */
object RowSorting {
  def byKeys(job: WriteJob): UnsafeExternalRowSorter = {
    val order = job.keys.map(key => SortOrder(key.attribute, Ascending))
    val first = BindReferences.bindReference(order.head, job.allColumns)
    UnsafeExternalRowSorter.create(
      DataTypeUtils.fromAttributes(job.allColumns),
      RowOrdering.create(order, job.allColumns),
      SortPrefixUtils.getPrefixComparator(first),
      new KeyPrefix(SortPrefix(first)),
      SparkEnv.get.memoryManager.pageSizeBytes,
      false)
  }

  private class KeyPrefix(prefix: SortPrefix) extends UnsafeExternalRowSorter.PrefixComputer {
    private val projection = UnsafeProjection.create(Seq(prefix))
    private val result = new UnsafeExternalRowSorter.PrefixComputer.Prefix

    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      val value = projection(row)
      result.isNull = value.isNullAt(0)
      result.value = if (result.isNull) prefix.nullValue else value.getLong(0)
      result
    }
  }
}
