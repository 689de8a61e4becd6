package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.views.{CatalogExtView, DescribePartitionedViewExec, ViewOperations}
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, NoSuchViewException, ResolvedPersistentView}
import org.apache.spark.sql.catalyst.plans.logical.{DescribeRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{Identifier, RelationCatalog, Table}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.DescribeV2ViewExec

/** Views in catalogs other than Spark's own, which Spark supports in these releases. */
object Views {
  type Relation = org.apache.spark.sql.connector.catalog.Relation
  type View = org.apache.spark.sql.connector.catalog.View
  type Builder = org.apache.spark.sql.connector.catalog.View.Builder

  def builder(): Builder = new Builder

  /** The rules that views need; they find views by the names in a statement. */
  val rules: Seq[SparkSession => Rule[LogicalPlan]] = Nil

  /** Extractor of a view in a resolved statement: a view of this connector, or None for any other. */
  object Resolved {
    def unapply(plan: LogicalPlan): Option[Option[CatalogExtView]] = plan match {
      case ResolvedPersistentView(_, _, view: CatalogExtView) => Some(Some(view))
      case _: ResolvedPersistentView => Some(None)
      case _ => None
    }
  }

  /** The plan of DESCRIBE of a partitioned view. */
  def described(plan: LogicalPlan): Option[SparkPlan] = plan match {
    case DescribeRelation(ResolvedPersistentView(catalog, ident, view: CatalogExtView), extended, output)
        if view.partitioned =>
      val described = DescribeV2ViewExec(output, catalog.name(), ident, view, extended)
      Some(DescribePartitionedViewExec(output, view, described))
    case _ => None
  }
}

/** A catalog with views. */
trait CatalogWithViews extends CatalogBase with RelationCatalog {
  import Views._

  protected def views: ViewOperations

  override def loadTable(ident: Identifier): Table = super[CatalogBase].loadTable(ident)
  override def tableExists(ident: Identifier): Boolean = super[CatalogBase].tableExists(ident)

  /** The table or view, by one request. */
  override def loadRelation(ident: Identifier): Relation = tables.loadRelation(ident)

  def relation(ident: Identifier): Option[Relation] = try Some(loadRelation(ident)) catch {
    case _: NoSuchTableException => None
  }

  override def loadView(ident: Identifier): View = relation(ident) match {
    case Some(view: View) => view
    case _ => throw new NoSuchViewException(ident)
  }

  override def viewExists(ident: Identifier): Boolean = relation(ident).exists(_.isInstanceOf[View])
  override def listViews(namespace: Array[String]): Array[Identifier] = views.list(namespace)
  override def createView(ident: Identifier, view: View): View = views.put(ident, view, "create")
  override def replaceView(ident: Identifier, view: View): View = views.put(ident, view, "replace")
  override def createOrReplaceView(ident: Identifier, view: View): View = views.put(ident, view, "create_or_replace")
  override def dropView(ident: Identifier): Boolean = views.drop(ident)
  override def renameView(from: Identifier, to: Identifier): Unit = views.rename(from, to)
}
