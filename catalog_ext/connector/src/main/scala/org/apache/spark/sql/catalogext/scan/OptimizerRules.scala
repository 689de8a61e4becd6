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
 * Lets `Dataset.inputFiles` find the files of our scans: among the nodes of an optimized plan it asks those that are a
 * `FileRelation`, and tables of Spark's own `FileTable`. Everything else takes the node for the scan that it was.
 */
object ListedRelations extends Rule[LogicalPlan] {
  /** Adds the rule to a session's own: those that extensions inject run before Spark makes the scans. */
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

/** A scan that says which files it reads. Copies are plain scans: only the optimized plan itself is asked. */
private class ListedRelation(from: DataSourceV2ScanRelation, files: () => Array[String])
  extends CopiedScan(from) with FileRelation {

  override def inputFiles: Array[String] = files()
  override def nodeName: String = from.nodeName
  // A rule's result that equals its input is dropped, whichever of the two Spark asks.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ListedRelation]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode()
  // Spark would look for a constructor that takes the node's fields.
  override def clone(): LogicalPlan = from.clone()
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan = from.makeCopy(arguments)
}

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
