package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Before Spark 4.3 the columns of `dropDuplicates` are resolved before its plan exists, so nothing matches. */
object Deduplication {
  def unapply(plan: LogicalPlan): Option[(LogicalPlan, LogicalPlan => LogicalPlan)] = None
}
