package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.CatalogExtSessionCatalog
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedExtractValue, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, Literal, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, SubqueryAlias, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}
import org.apache.spark.sql.internal.SQLConf

/**
 * A relation that a query gives an alias. To Spark `l.n` is the field `n` of a column `l`, where there is one, before it is
 * the hidden column `n` of the relation `l`. This node is never resolved, so that Spark looks no name up before
 * `ResolveQualifiedNames` has seen the columns.
 */
case class AliasedRelation(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): AliasedRelation = copy(child = newChild)
}

/** Marks the relations with an alias that can be ours, before Spark resolves them. */
class MarkAliasedRelations(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case alias @ SubqueryAlias(_, relation: UnresolvedRelation)
        if !relation.options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES) &&
          canBeOurs(relation.multipartIdentifier) =>
      alias.copy(child = AliasedRelation(relation))
  }

  private def canBeOurs(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(_: CatalogBase | _: CatalogExtSessionCatalog, _) => true
    case _ => false
  }
}

/** Takes `l.n` for the hidden column of the relation `l`, where Spark would look into a column `l`. */
object ResolveQualifiedNames extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.exists(isReady)) rewritten(plan)._1 else plan

  private def isReady(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, AliasedRelation(child)) => child.resolved
    case _ => false
  }

  /** The plan without the marks of what is resolved, and the relations that its parent's names may mean. */
  private def rewritten(plan: LogicalPlan): (LogicalPlan, Seq[SubqueryAlias]) = plan match {
    case alias @ SubqueryAlias(_, AliasedRelation(child)) if child.resolved =>
      val bare = alias.copy(child = child)
      (bare, if (bare.output.exists(column => same(column.name, bare.alias))) Seq(bare) else Nil)
    case _ =>
      val (children, found) = plan.children.map(rewritten).unzip
      val relations = found.flatten
      val whole = plan.withNewChildren(children)
      if (relations.isEmpty) (whole, Nil)
      // Behind another alias their names are not known.
      else if (plan.isInstanceOf[SubqueryAlias]) (whole, Nil)
      else (named(whole, relations), relations)
  }

  private def named(plan: LogicalPlan, relations: Seq[SubqueryAlias]): LogicalPlan = {
    def changed(e: Expression): Expression = e.transform {
      case u: UnresolvedAttribute => hidden(u, relations).getOrElse(u)
    }
    // What a query shows needs a name.
    def item(e: NamedExpression): NamedExpression = e match {
      case u: UnresolvedAttribute => hidden(u, relations).fold(e) {
        case column: Attribute => column
        case field => Alias(field, u.nameParts.last)()
      }
      case other => changed(other).asInstanceOf[NamedExpression]
    }
    plan match {
      case project: Project => project.copy(projectList = project.projectList.map(item))
      case aggregate: Aggregate => aggregate.copy(
        groupingExpressions = aggregate.groupingExpressions.map(changed),
        aggregateExpressions = aggregate.aggregateExpressions.map(item))
      case other => other.mapExpressions(changed)
    }
  }

  private def hidden(name: UnresolvedAttribute, relations: Seq[SubqueryAlias]): Option[Expression] = name.nameParts match {
    case of +: column +: fields => for {
      relation <- relations.find(relation => same(relation.alias, of))
      attribute <- relation.metadataOutput.find(attribute => same(attribute.name, column))
      if !relation.output.exists(shown => same(shown.name, column))
    } yield fields.foldLeft(attribute: Expression)((whole, field) => UnresolvedExtractValue(whole, Literal(field)))
    case _ => None
  }

  private def same(one: String, other: String): Boolean = SQLConf.get.resolver(one, other)
}
