package org.apache.spark.sql.catalogext.session

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.{ExpressionWithUnresolvedIdentifier, PlanWithUnresolvedIdentifier, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, Literal, RuntimeReplaceable, SubqueryExpression}
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation, Project, RenameColumn}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_IDENTIFIER
import org.apache.spark.sql.classic
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Evaluates names of the form `IDENTIFIER(...)` before the rules that look at names; Spark does so only after them. An
 * argument that is not a constant string is left to Spark, which reports it.
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

  /** The rule for the resolution phase: it applies `rules` to names that were not known before. */
  def late(rules: Seq[Rule[LogicalPlan]]): Rule[LogicalPlan] = new Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan =
      if (!plan.exists(_.isInstanceOf[PlanWithUnresolvedIdentifier])) plan
      else {
        val named = ResolveGivenNames.this(plan)
        if (named eq plan) plan else repeated(named, rules)
      }
  }

  // Spark repeats the rules before the resolution too. Some rules need a repetition: the rule for INSERT removes IF NOT
  // EXISTS first, and marks the statement only after that.
  @tailrec private def repeated(plan: LogicalPlan, rules: Seq[Rule[LogicalPlan]]): LogicalPlan = {
    val changed = rules.foldLeft(plan)((before, rule) => rule(before))
    if (changed.fastEquals(plan)) plan else repeated(changed, rules)
  }

  private def parts(name: Expression): Option[Seq[String]] =
    // A subquery is not a constant; analyzing it here would change the error that Spark reports.
    if (name.exists(_.isInstanceOf[SubqueryExpression])) None
    else try {
      val project = Project(Seq(Alias(name, "name")()), OneRowRelation())
      session.asInstanceOf[classic.SparkSession].sessionState.executePlan(project).analyzed.expressions.collectFirst {
        case Alias(value, _) if value.foldable && value.dataType.isInstanceOf[StringType] =>
          value.transform { case replaced: RuntimeReplaceable => replaced.replacement }.eval()
      }.filter(_ != null).map(text => CatalystSqlParser.parseMultipartIdentifier(text.toString))
    } catch {
      case NonFatal(_) => None
    }
}

/**
 * RENAME COLUMN … TO IDENTIFIER('…'): Spark's parser passes the text of the clause as the new name. Without this rule
 * the column would get that text as its name, and be NULL in all older files.
 */
object ResolveRenamedColumns extends Rule[LogicalPlan] {
  private val Clause = "(?is)IDENTIFIER\\s*\\((.*)\\)".r

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case rename @ RenameColumn(ResolvedTable(_, _, _: CatalogExtTable, _), _, clause @ Clause(name)) =>
      rename.copy(newName = constant(name).getOrElse(throw ConnectorErrors.notSupported(
        s"RENAME COLUMN … TO $clause: the name of a column is one constant text, such as IDENTIFIER('name').")))
  }

  private def constant(name: String): Option[String] =
    try {
      Option(CatalystSqlParser.parseExpression(name)).collect { case Literal(text: UTF8String, _) => text.toString }
        .map(CatalystSqlParser.parseMultipartIdentifier).filter(_.length == 1).map(_.head)
    } catch {
      case _: ParseException => None
    }
}
