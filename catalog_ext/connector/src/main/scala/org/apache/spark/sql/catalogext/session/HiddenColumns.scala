package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable, VirtualColumn}
import org.apache.spark.sql.catalogext.CatalogExtSessionCatalog
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.paths.AdHocTable
import org.apache.spark.sql.catalogext.release.{Deduplication, DescribeWhole, SearchPath}
import org.apache.spark.sql.catalogext.service.{Condition, ConnectorErrors}
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, ResolvedTable, UnresolvedAttribute,
  UnresolvedExtractValue, UnresolvedRelation, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet, Expression, Literal,
  NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, AnalysisHelper, Deduplicate, DescribeColumn, Distinct,
  Expand, Join, LogicalPlan, Project, ShowColumns, SubqueryAlias, UnaryNode, Union, View}
import org.apache.spark.sql.catalyst.plans.{NaturalJoin, UsingJoin}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.DISTINCT_LIKE
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, Table}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.MetadataBuilder
import org.apache.spark.sql.{AnalysisException, classic, SparkSession}

/** A marker node in a plan. It is never resolved, so Spark's rules wait until a rule of this connector removes it. */
trait Mark extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val resolved: Boolean = false
}

/**
 * One side of a USING or NATURAL join that may need virtual partition columns. Spark's rule resolves a join as soon as
 * both sides are resolved, and uses visible columns only. This node is never resolved, so that the rule waits.
 */
case class JoinSide(child: LogicalPlan) extends Mark {
  override protected def withNewChildInternal(newChild: LogicalPlan): JoinSide = copy(child = newChild)
}

/** Marks the sides of USING and NATURAL joins before Spark resolves their relations. */
object MarkJoinSides extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case join @ Join(left, right, _: UsingJoin | _: NaturalJoin, _, _)
        if !left.isInstanceOf[JoinSide] && !right.isInstanceOf[JoinSide] =>
      join.copy(left = JoinSide(left), right = JoinSide(right))
  }
}

/**
 * Makes the virtual partition columns visible by which a USING or NATURAL join joins; Spark's rule then resolves the
 * join.
 */
object ShowJoinColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case join @ Join(JoinSide(left), JoinSide(right), using: UsingJoin, _, _) if left.resolved && right.resolved =>
      showing(join, left, right, using.usingColumns)
    case join @ Join(JoinSide(left), JoinSide(right), _: NaturalJoin, _, _) if left.resolved && right.resolved =>
      // Join as if all keys were ordinary columns. A hidden key counts only if the other side has a column of its name.
      val (keysLeft, keysRight) = (keys(left), keys(right))
      val common = keysLeft.filter(key => (right.output ++ keysRight).exists(same(_, key.name))) ++
        keysRight.filter(key => left.output.exists(same(_, key.name)))
      showing(join, left, right, common.map(_.name).distinct)
  }

  private def showing(join: Join, left: LogicalPlan, right: LogicalPlan, names: Seq[String]): Join =
    join.copy(left = showing(left, hidden(left, names)), right = showing(right, hidden(right, names)))

  /** The hidden columns of the plan that have one of the names. */
  private def hidden(plan: LogicalPlan, names: Seq[String]): Seq[Attribute] =
    names.filterNot(name => plan.output.exists(same(_, name))).flatMap(name => keys(plan).find(same(_, name)))

  private def keys(plan: LogicalPlan): Seq[Attribute] =
    plan.metadataOutput.filter(_.metadata.contains(VirtualColumn.KeyMark))

  private def same(attribute: Attribute, name: String): Boolean = SQLConf.get.resolver(attribute.name, name)

  private def showing(plan: LogicalPlan, columns: Seq[Attribute]): LogicalPlan =
    if (columns.isEmpty) plan else Project(plan.output ++ columns.map(visible), plan)

  // Give the column a new id, and remove the mark of a metadata column: from here on it is an ordinary column.
  private def visible(column: Attribute): NamedExpression =
    Alias(column, column.name)(qualifier = column.qualifier, explicitMetadata = Some(new MetadataBuilder().build()))
}

/**
 * The rows that DISTINCT compares. Spark lets an outer query name hidden columns of the tables below, and adds them to
 * the compared rows, which changes the result. This node is never resolved, so no name is looked up through it.
 */
case class ComparedRows(child: LogicalPlan) extends Mark {
  override def metadataOutput: Seq[Attribute] = Nil
  override protected def withNewChildInternal(newChild: LogicalPlan): ComparedRows = copy(child = newChild)
}

/**
 * Marks the input of DISTINCT before Spark resolves its relations. For a DataFrame the relations are already resolved:
 * `distinct` and `dropDuplicates` would return a hidden column of an arbitrary row among the equal ones.
 */
object MarkComparedRows extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    // Spark Connect's unresolved dropDuplicates differs between Spark releases, so `Deduplication` matches it for each
    // release.
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

  // Leave out UNION: Spark itself removes hidden columns there, and expects exactly this shape in recursive queries.
  private def canShow(child: LogicalPlan): Boolean = child match {
    case _: ComparedRows | _: Union => false
    case _ => !EndHiddenColumns.isEnd(child)
  }
}

/** Removes the hidden columns of this connector's tables below DISTINCT; columns of other tables are left to Spark. */
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

/** The hidden columns of relations of this connector. */
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

/**
 * Lets ROLLUP, CUBE and GROUPING SETS group by hidden columns: Spark expands the rows from visible columns before it
 * resolves hidden ones.
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

/**
 * A relation with an alias. For Spark `l.n` is first the field `n` of a column `l`, and only then the hidden column `n`
 * of the relation `l`. This node is never resolved, so Spark looks up no name before `ResolveQualifiedNames` has run.
 */
case class AliasedRelation(child: LogicalPlan) extends Mark {
  override protected def withNewChildInternal(newChild: LogicalPlan): AliasedRelation = copy(child = newChild)
}

/** Marks aliased relations that may belong to this connector, before Spark resolves them. */
class MarkAliasedRelations(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case alias @ SubqueryAlias(_, relation: UnresolvedRelation)
        if !relation.options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES) &&
          canBeOurs(relation.multipartIdentifier) =>
      alias.copy(child = AliasedRelation(relation))
  }

  /** A name within a view is resolved in the catalog and namespace in which the view was created. */
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

/** Resolves `l.n` to the hidden column of the relation `l` where Spark would look into a column `l`. */
object ResolveQualifiedNames extends Rule[LogicalPlan] {
  // A plan with a marker is unresolved, and Spark caches that state. So this test is cheap.
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.resolved && plan.exists(isReady)) rewritten(plan)._1 else plan

  private def isReady(plan: LogicalPlan): Boolean = plan match {
    case SubqueryAlias(_, AliasedRelation(child)) => child.resolved
    case _ => false
  }

  /** The possible meanings of names at a node: aliased relations below it, and names of columns. */
  private case class Scope(relations: Seq[AliasedColumns], columns: Set[String])

  private object Scope {
    val Empty: Scope = Scope(Nil, Set.empty)
  }

  private case class AliasedColumns(alias: String, shown: Seq[Attribute], hidden: Seq[Attribute])

  /** The plan without the markers of resolved relations, and the scope for its parent. */
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
        // The scope of an aliased subquery has only its own columns, because names within the subquery are not visible
        // outside.
        case (_: SubqueryAlias, alias: SubqueryAlias) if alias.resolved =>
          (alias, Scope(Seq(AliasedColumns(alias.alias, alias.output, Nil)), names(alias)))
        case (_: SubqueryAlias, _) => (whole, Scope.Empty)
        case _ if plan.children.isEmpty => (whole, if (whole.resolved) Scope(Nil, names(whole)) else Scope.Empty)
        case _ => (if (relations.isEmpty) whole else retagged(named(whole, relations), whole), scope)
      }
  }

  private def names(plan: LogicalPlan): Set[String] = plan.output.map(_.name).toSet

  /** `changed` with the tags of `before`, by which Spark Connect finds the plan of a DataFrame. */
  private def retagged[T <: LogicalPlan](changed: T, before: LogicalPlan): T = {
    if (changed ne before) changed.copyTagsFrom(before)
    changed
  }

  private def named(plan: LogicalPlan, relations: Seq[AliasedColumns]): LogicalPlan = {
    def changed(e: Expression): Expression = e.transform {
      case u: UnresolvedAttribute => hidden(u, relations).getOrElse(u)
    }
    // Give the column an alias in a select list, where every expression needs a name.
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

  // If two relations have the alias, the name is ambiguous: leave it to Spark, which reports that.
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

/** The table of `spark.catalog.listColumns`. The node is never resolved, so that `ListHiddenKeys` sees it. */
case class ListedRelation(child: LogicalPlan) extends Mark {
  override protected def withNewChildInternal(newChild: LogicalPlan): ListedRelation = copy(child = newChild)
}

/**
 * Marks the table in the plan of `spark.catalog.listColumns`, which can be recognized only by the plan's command name.
 */
object MarkListedRelations extends Rule[LogicalPlan] {
  private val Asking = "Catalog.listColumns"

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case asked: UnresolvedTableOrView if asked.commandName == Asking => ListedRelation(asked)
    case other => other
  }
}

/** Adds virtual partition columns, marked as hidden, to statements that list a table's columns. */
object ListHiddenKeys extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case ListedRelation(Listed(relation)) => relation
    case ListedRelation(relation) if relation.resolved => relation
    case show @ ShowColumns(Listed(relation), _, _) => show.copy(child = relation)
    case DescribeWhole(Listed(relation), of) => of(relation)
    case describe @ DescribeColumn(Listed(relation), _, _, _) => describe.copy(relation = relation)
    case other => other
  }

  private object Listed {
    def unapply(plan: LogicalPlan): Option[ResolvedTable] = plan match {
      case ResolvedTable(catalog, ident, table, known) =>
        listed(table).map(ResolvedTable.create(catalog, ident, _)).map(found => found.copy(
          // The statement may already have resolved its column against the table without the keys, so use the new
          // attributes of the same names.
          outputAttributes = found.outputAttributes.map(a => known.find(_.name == a.name).getOrElse(a))))
      case _ => None
    }
  }

  private def listed(table: Table): Option[Table] = table match {
    case ours: CatalogExtTable => ours.withKeysListed
    case path: AdHocTable => path.withKeysListed
    case _ => None
  }
}

/** Explains a reference to a column that a view omits because it is hidden in the view's table. */
object ExplainHiddenKeys extends Rule[LogicalPlan] {
  private val Unresolved = Condition("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")

  // Not within a subquery, where the name may belong to the outer query.
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (!plan.resolved && AnalysisContext.get.outerPlan.isEmpty) {
      plan.foreach(node => node.expressions.foreach(_.foreach {
        case name: UnresolvedAttribute => leftOut(node, name).foreach(throw _)
        case _ =>
      }))
    }
    plan
  }

  private def quoted(parts: Seq[String]): String = parts.map(quoteIdentifier).mkString(".")

  private def leftOut(node: LogicalPlan, name: UnresolvedAttribute): Option[AnalysisException] = (for {
    child <- node.children.iterator
    view <- child.collect { case view: View if view.resolved => view }
    key <- view.child.metadataOutput
    if key.metadata.contains(VirtualColumn.KeyMark) && SQLConf.get.resolver(key.name, name.nameParts.last)
  } yield explained(view, key, name)).nextOption()

  private def explained(view: View, key: Attribute, name: UnresolvedAttribute): AnalysisException = {
    val of = view.desc.identifier.nameParts
    val shown = quoted(of)
    ConnectorErrors.analysis(Unresolved,
      s"A column, variable, or function parameter with name ${quoted(name.nameParts)} cannot be resolved. " +
        s"`${key.name}` is a hidden partition column of a table that the view $shown reads, and the view's `SELECT *` " +
        s"leaves it out. Name it in the view: CREATE OR REPLACE VIEW $shown AS SELECT *, ${quoted(Seq(key.name))} FROM ...",
      Map(
        "objectName" -> quoted(name.nameParts),
        "proposal" -> view.output.map(column => quoted(Seq(column.name))).mkString(", ")))
  }
}
