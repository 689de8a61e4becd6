package org.apache.spark.sql.catalogext.session

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ExpressionWithUnresolvedIdentifier, PlanWithUnresolvedIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, RuntimeReplaceable}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_IDENTIFIER
import org.apache.spark.sql.classic
import org.apache.spark.sql.types.StringType

/**
 * Takes the names that an expression gives, `IDENTIFIER(...)`, before the rules that go by names see a statement; Spark
 * itself does so after them. What is no constant text is left to Spark, which says so.
 */
class ResolveGivenNames(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case named: PlanWithUnresolvedIdentifier =>
      parts(named.identifierExpr).fold(named: LogicalPlan)(named.planBuilder(_, named.children))
    case other if other.containsPattern(UNRESOLVED_IDENTIFIER) => other.transformExpressionsUp {
      case named: ExpressionWithUnresolvedIdentifier =>
        parts(named.identifierExpr).fold(named: Expression)(named.exprBuilder(_, named.otherExprs))
    }
  }

  /** What is done of it while Spark resolves a statement: `rules` then see the names that were not known before. */
  def late(rules: Seq[Rule[LogicalPlan]]): Rule[LogicalPlan] = new Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan =
      if (!plan.exists(_.isInstanceOf[PlanWithUnresolvedIdentifier])) plan
      else {
        val named = ResolveGivenNames.this(plan)
        if (named eq plan) plan else rules.foldLeft(named)((changed, rule) => rule(changed))
      }
  }

  private def parts(name: Expression): Option[Seq[String]] =
    try {
      val project = Project(Seq(Alias(name, "name")()), OneRowRelation())
      session.asInstanceOf[classic.SparkSession].sessionState.executePlan(project).analyzed.expressions.collectFirst {
        case Alias(value, _) if value.foldable && value.dataType.isInstanceOf[StringType] =>
          value.transform { case replaced: RuntimeReplaceable => replaced.replacement }.eval()
      }.filter(_ != null).map(text => CatalystSqlParser.parseMultipartIdentifier(text.toString))
    } catch {
      case NonFatal(_) => None
    }
}
