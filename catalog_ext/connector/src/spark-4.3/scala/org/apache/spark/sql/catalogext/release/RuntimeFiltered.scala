package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.internal.connector.SupportsRuntimeCatalystFiltering

/** A scan that receives the runtime filters of joins and subqueries as Spark's own expressions. */
trait RuntimeFiltered extends SupportsRuntimeCatalystFiltering {
  protected def found(filters: Seq[Expression]): Unit

  override def filter(expressions: Array[Expression]): Unit = found(expressions.toSeq)
}
