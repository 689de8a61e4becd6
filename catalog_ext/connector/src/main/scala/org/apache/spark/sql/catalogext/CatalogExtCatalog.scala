package org.apache.spark.sql.catalogext

import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogOptions}
import org.apache.spark.sql.catalogext.views.ViewOperations
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, NoSuchViewException}
import org.apache.spark.sql.connector.catalog.{Identifier, Relation, RelationCatalog, Table, View}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The catalog that `spark.sql.catalog.<name>` names: every table and view in it is one of the index. */
class CatalogExtCatalog extends CatalogBase with RelationCatalog {
  private var views: ViewOperations = _

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    super.initialize(name, options)
    views = new ViewOperations(name, CatalogOptions.client(name, options), namespaces)
  }

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
