package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Expand, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Lets ROLLUP, CUBE and GROUPING SETS aggregate hidden columns of ours: Spark makes the rows that these multiply of the columns that
 * are shown, before it looks for the others.
 */
object ExpandHiddenColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case aggregate @ Aggregate(_, _, expand: Expand, _) if aggregate.missingInput.nonEmpty =>
      val ours = OurColumns.in(expand.child)
      val there = AttributeSet(expand.child.metadataOutput ++ expand.child.output)
      val added = aggregate.missingInput.filter(column => ours.contains(column) && there.contains(column)).toSeq
      if (added.isEmpty) aggregate
      else aggregate.copy(child = expand.copy(
        projections = expand.projections.map(_ ++ added), output = expand.output ++ added))
  }
}
