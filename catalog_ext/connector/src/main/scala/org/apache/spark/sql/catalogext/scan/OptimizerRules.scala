package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.release.CopiedScan
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete, Count}
import org.apache.spark.sql.catalyst.expressions.{Least, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{AGGREGATE, COUNT}
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.execution.FileRelation

/**
 * Makes `Dataset.inputFiles` return the files of this connector's scans: Spark asks only `FileRelation` nodes of an
 * optimized plan and its own `FileTable`. For everything else the node equals the original scan.
 */
object ListedRelations extends Rule[LogicalPlan] {
  /** Adds the rule to the session's own rules. Rules that extensions inject run before Spark creates the scans. */
  def addTo(session: classic.SparkSession): Unit = {
    val own = session.experimental.extraOptimizations
    if (!own.contains(this)) session.experimental.extraOptimizations = own :+ this
  }

  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case relation: DataSourceV2ScanRelation if !relation.isInstanceOf[ListedRelation] =>
      relation.scan match {
        case scan: CatalogExtScan => new ListedRelation(relation, () => scan.inputFiles)
        case _ => relation
      }
  }
}

/**
 * A scan node that returns its files for `Dataset.inputFiles`. Spark asks only the optimized plan itself, so copies of
 * the node are ordinary scan nodes.
 */
private class ListedRelation(from: DataSourceV2ScanRelation, files: () => Array[String])
  extends CopiedScan(from) with FileRelation {

  override def inputFiles: Array[String] = files()
  override def nodeName: String = from.nodeName
  // The optimizer drops a rule's result that equals its input, so the comparison must fail in both directions.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ListedRelation]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode()
  // Override clone and makeCopy: Spark's own ones would look for a constructor with the node's fields.
  override def clone(): LogicalPlan = from.clone()
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan = from.makeCopy(arguments)
}

/**
 * Replaces `count(DISTINCT 1)` over a table of this connector, or over its metadata, with `least(count(1), 1)`. Spark
 * would push it down as `count(*)`, without the DISTINCT.
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
