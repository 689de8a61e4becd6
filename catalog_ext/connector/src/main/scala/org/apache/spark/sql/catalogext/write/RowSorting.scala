package org.apache.spark.sql.catalogext.write

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{SortPrefixUtils, UnsafeExternalRowSorter}

/** Spark's own external sort, by partition columns, inside a task. */
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
