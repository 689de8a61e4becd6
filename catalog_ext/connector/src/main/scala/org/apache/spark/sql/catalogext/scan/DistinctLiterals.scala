package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalyst.expressions.{Least, Literal}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete, Count}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{AGGREGATE, COUNT}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Makes `least(count(1), 1)` of a `count(DISTINCT 1)` over a table of ours, or over its metadata: where Spark offers it to a source, it is
 * `count(*)`, and the word DISTINCT is lost.
 */
object DistinctLiterals extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformWithPruning(_.containsAllPatterns(AGGREGATE, COUNT)) {
      case aggregate: Aggregate if aggregate.exists(isOurs) => aggregate.transformExpressions {
        case AggregateExpression(Count(Seq(literal: Literal)), Complete, true, None, _) if literal.value != null =>
          Least(Seq(Count(Literal(1)).toAggregateExpression(), Literal(1L)))
      }
    }

  private def isOurs(plan: LogicalPlan): Boolean = plan match {
    case relation: DataSourceV2Relation =>
      relation.table.isInstanceOf[CatalogExtTable] || relation.table.isInstanceOf[MetadataTable]
    case _ => false
  }
}
