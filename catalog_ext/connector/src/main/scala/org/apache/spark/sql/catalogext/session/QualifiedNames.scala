package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.CatalogExtSessionCatalog
import org.apache.spark.sql.catalogext.release.SearchPath
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, UnresolvedAttribute, UnresolvedExtractValue, UnresolvedRelation}
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

  /** A name within a view is resolved in the catalog and the namespace in which the view was made. */
  private def inView(name: Seq[String]): Seq[String] = AnalysisContext.get.catalogAndNamespace match {
    case Seq() => name
    case view if name.length == 1 => view ++ name
    case view => if (catalogManager.isCatalogRegistered(name.head)) name else view.head +: name
  }

  private def canBeOurs(name: Seq[String]): Boolean = SearchPath.candidates(catalogManager, name).map(inView).exists {
    case CatalogAndIdentifier(_: CatalogBase | _: CatalogExtSessionCatalog, _) => true
    case _ => false
  }
}

/** Takes `l.n` for the hidden column of the relation `l`, where Spark would look into a column `l`. */
object ResolveQualifiedNames extends Rule[LogicalPlan] {
  // A plan with a mark is not resolved, which Spark knows without a walk.
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.resolved && plan.exists(isReady)) rewritten(plan)._1 else plan

  private def isReady(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, AliasedRelation(child)) => child.resolved
    case _ => false
  }

  /** What the names of a node may mean: the relations below it that have an alias, and names of columns. */
  private case class Scope(relations: Seq[AliasedColumns], columns: Set[String])

  private object Scope {
    val Empty: Scope = Scope(Nil, Set.empty)
  }

  private case class AliasedColumns(alias: String, shown: Seq[Attribute], hidden: Seq[Attribute])

  /** The plan without the marks of what is resolved, and what its parent's names may mean. */
  private def rewritten(plan: LogicalPlan): (LogicalPlan, Scope) = plan match {
    case alias @ SubqueryAlias(_, AliasedRelation(child)) if child.resolved =>
      val bare = retagged(alias.copy(child = child), alias)
      val ours = OurColumns.in(child)
      val columns = AliasedColumns(bare.alias, bare.output, bare.metadataOutput.filter(ours.contains))
      (bare, Scope(Seq(columns), names(bare)))
    case _ =>
      val (children, scopes) = plan.children.map(rewritten).unzip
      val scope = Scope(scopes.flatMap(_.relations), scopes.flatMap(_.columns).toSet)
      val whole = plan.withNewChildren(children)
      val relations = scope.relations.filter(relation => scope.columns.exists(same(_, relation.alias)))
      (plan, whole) match {
        // Behind another alias the names within it are not known.
        case (_: SubqueryAlias, alias: SubqueryAlias) if alias.resolved =>
          (alias, Scope(Seq(AliasedColumns(alias.alias, alias.output, Nil)), names(alias)))
        case (_: SubqueryAlias, _) => (whole, Scope.Empty)
        case _ if plan.children.isEmpty => (whole, if (whole.resolved) Scope(Nil, names(whole)) else Scope.Empty)
        case _ => (if (relations.isEmpty) whole else retagged(named(whole, relations), whole), scope)
      }
  }

  private def names(plan: LogicalPlan): Set[String] = plan.output.map(_.name).toSet

  /** `changed` with the marks of `before`: Spark Connect finds the plan of a DataFrame by them. */
  private def retagged[T <: LogicalPlan](changed: T, before: LogicalPlan): T = {
    if (changed ne before) changed.copyTagsFrom(before)
    changed
  }

  private def named(plan: LogicalPlan, relations: Seq[AliasedColumns]): LogicalPlan = {
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

  // An alias that two relations have is ambiguous, which Spark says.
  private def hidden(
      name: UnresolvedAttribute,
      relations: Seq[AliasedColumns]): Option[Expression] = name.nameParts match {
    case of +: column +: fields => for {
      relation <- Option(relations.filter(relation => same(relation.alias, of))).collect { case Seq(one) => one }
      attribute <- relation.hidden.find(attribute => same(attribute.name, column))
      if !relation.shown.exists(shown => same(shown.name, column))
    } yield fields.foldLeft(attribute.withName(column): Expression) { (whole, field) =>
      UnresolvedExtractValue(whole, Literal(field))
    }
    case _ => None
  }

  private def same(one: String, other: String): Boolean = SQLConf.get.resolver(one, other)
}
