package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.{CatalogExtSessionCatalog, SessionNames}
import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable}
import org.apache.spark.sql.catalogext.release.SearchPath
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog, TableCatalog}

/** Finds which names are of tables in the index, for rules that come before Spark's own resolution. */
class IndexedNames(session: SparkSession) extends LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  /** The session catalog, where it is ours. */
  def sessionCatalog: Option[CatalogExtSessionCatalog] = catalogManager.v2SessionCatalog match {
    case catalog: CatalogExtSessionCatalog => Some(catalog)
    case _ => None
  }

  /** In a catalog of ours every name is one; in the session catalog those of the index are, which is asked. */
  def areIndexed(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(_: CatalogBase, _) => true
    case _ => !isTemporary(name) && inSession(name).isDefined
  }

  /** What Spark takes a name in a query for, the target of INSERT too: the first on its search path that is there. */
  def onPath(name: Seq[String]): Seq[String] = SearchPath.candidates(catalogManager, name) match {
    case Seq(one) => one
    case _ if isTemporary(name) => name
    case several => several.find(isThere).getOrElse(name)
  }

  private def isThere(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(catalog: TableCatalog, ident) => catalog.tableExists(ident)
    case _ => false
  }

  /** The session catalog and what the name means there, where that is a table of the index. */
  def inSession(name: Seq[String]): Option[(CatalogExtSessionCatalog, Identifier)] = name match {
    case CatalogAndIdentifier(catalog: CatalogExtSessionCatalog, ident) if catalog.has(ident) => Some((catalog, ident))
    case _ => None
  }

  /** The table of ours that the name means. */
  def table(name: Seq[String]): Option[CatalogExtTable] = name match {
    case CatalogAndIdentifier(catalog, ident) =>
      try catalog.asTableCatalog.loadTable(ident) match {
        case table: CatalogExtTable => Some(table)
        case _ => None
      } catch { case _: NoSuchTableException | _: NoSuchNamespaceException => None }
    case _ => None
  }

  /** What the name means in the session catalog, where that is ours and the index can have such a table. */
  def possibleInSession(name: Seq[String]): Option[Identifier] = name match {
    case CatalogAndIdentifier(_: CatalogExtSessionCatalog, ident) if SessionNames.possible(ident) => Some(ident)
    case _ => None
  }

  /** The catalog that a name means, and what it means there. */
  def tableCatalog(name: Seq[String]): (TableCatalog, Identifier) = name match {
    case CatalogAndIdentifier(catalog, ident) => (catalog.asTableCatalog, ident)
  }

  def sessionNamespace(name: Seq[String]): Option[Array[String]] = name match {
    case CatalogAndNamespace(_: CatalogExtSessionCatalog, namespace) => Some(namespace.toArray)
    case _ => None
  }

  private def isTemporary(name: Seq[String]): Boolean = catalogManager.v1SessionCatalog.isTempView(name)
}
