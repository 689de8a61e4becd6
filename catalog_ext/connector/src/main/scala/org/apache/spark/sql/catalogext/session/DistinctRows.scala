package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.paths.AdHocTable
import org.apache.spark.sql.catalogext.release.Deduplication
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, Deduplicate, Distinct, LogicalPlan, Project, UnaryNode,
  Union}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.DISTINCT_LIKE
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * The rows that DISTINCT compares. Spark lets a query around it name hidden columns of its tables, and adds them to these
 * rows, which are others then. This node is never resolved, so that no name is looked up through it.
 */
case class ComparedRows(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def metadataOutput: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): ComparedRows = copy(child = newChild)
}

/**
 * Marks what DISTINCT compares, before Spark resolves what is read. Of a DataFrame that is resolved already: `distinct` and
 * `dropDuplicates` would take a hidden column of any of the equal rows.
 */
object MarkComparedRows extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    // What Spark Connect's dropDuplicates is before it is resolved has no pattern.
    val marked = plan.resolveOperators {
      case distinct: Distinct if canShow(distinct.child) => distinct.copy(child = ComparedRows(distinct.child))
      case Deduplication(child, of) if canShow(child) => of(ComparedRows(child))
    }
    if (!marked.containsPattern(DISTINCT_LIKE)) marked
    else AnalysisHelper.allowInvokingTransformsInAnalyzer {
      marked.transformWithPruning(_.containsPattern(DISTINCT_LIKE)) {
        case distinct: Deduplicate if distinct.child.resolved && !EndHiddenColumns.isEnd(distinct.child) =>
          distinct.copy(child = EndHiddenColumns.ended(distinct.child))
      }
    }
  }

  // At UNION Spark ends them itself, and looks for this very shape in recursive queries.
  private def canShow(child: LogicalPlan): Boolean = child match {
    case _: ComparedRows | _: Union => false
    case _ => !EndHiddenColumns.isEnd(child)
  }
}

/** Ends the hidden columns of our tables below DISTINCT; those of other tables are as Spark has them. */
object EndHiddenColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case ComparedRows(child) if child.resolved => ended(child)
  }

  def isEnd(plan: LogicalPlan): Boolean = plan.getTagValue(Project.hiddenOutputTag).isDefined

  def ended(plan: LogicalPlan): LogicalPlan = {
    val ours = OurColumns.in(plan)
    val (hidden, others) = plan.metadataOutput.partition(ours.contains)
    if (hidden.isEmpty) plan else {
      val project = Project(plan.output, plan)
      project.setTagValue(Project.hiddenOutputTag, others)
      project
    }
  }
}

/** The hidden columns of a relation of ours. */
private[session] object OurColumns {
  def in(plan: LogicalPlan): AttributeSet = AttributeSet(plan.collect { case OurColumns(hidden) => hidden }.flatten)

  def unapply(plan: LogicalPlan): Option[Seq[Attribute]] = plan match {
    case relation: DataSourceV2Relation => relation.table match {
      case _: CatalogExtTable | _: AdHocTable | _: MetadataTable => Some(relation.metadataOutput)
      case _ => None
    }
    case _ => None
  }
}
