package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, VirtualColumn}
import org.apache.spark.sql.catalogext.paths.AdHocTable
import org.apache.spark.sql.catalogext.release.DescribeWhole
import org.apache.spark.sql.catalogext.service.{Condition, ConnectorErrors}
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, ResolvedTable, UnresolvedAttribute,
  UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{DescribeColumn, LogicalPlan, ShowColumns,
  UnaryNode, View}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.internal.SQLConf

/** The table whose columns `spark.catalog.listColumns` lists, never resolved so that `ListHiddenKeys` sees it. */
case class ListedRelation(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): ListedRelation = copy(child = newChild)
}

/** Marks what `spark.catalog.listColumns` asks for, which is known by its name alone. */
object MarkListedRelations extends Rule[LogicalPlan] {
  private val Asking = "Catalog.listColumns"

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case asked: UnresolvedTableOrView if asked.commandName == Asking => ListedRelation(asked)
    case other => other
  }
}

/** Statements that list a table's columns have its virtual partition columns too, marked as hidden. */
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
          // The statement may have resolved its column already, by the attributes that were there.
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

/** Says of a column that a view leaves out because it is hidden in the view's table how to have it. */
object ExplainHiddenKeys extends Rule[LogicalPlan] {
  private val Unresolved = Condition("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")

  // Within a subquery a name may be one of the query around it.
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
