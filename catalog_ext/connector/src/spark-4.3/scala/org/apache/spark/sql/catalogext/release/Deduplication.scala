package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.UnresolvedDeduplicate
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** `dropDuplicates` with unresolved columns, which Spark Connect sends. */
object Deduplication {
  def unapply(plan: LogicalPlan): Option[(LogicalPlan, LogicalPlan => LogicalPlan)] = plan match {
    case distinct: UnresolvedDeduplicate => Some((distinct.child, child => distinct.copy(child = child)))
    case _ => None
  }
}
