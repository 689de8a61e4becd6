package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable}
import org.apache.spark.sql.catalogext.release.{Caches, SearchPath}
import org.apache.spark.sql.catalogext.{CatalogExtSessionCatalog, SessionNames}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog, TableCatalog}
import org.apache.spark.sql.{classic, SparkSession}

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

/** Spark's cache finds a table by its name, so a command that changes one has to invalidate it. */
object CachedPlans {
  /** Has what is cached of `table` read again at its next use. */
  def refresh(session: classic.SparkSession, table: CatalogExtTable): Unit =
    refresh(session, Seq(table.catalogName, table.metadata.namespace, table.metadata.name))

  /** The same for a name as a procedure takes it, which may leave out the catalog. */
  def refresh(session: classic.SparkSession, catalogName: String, table: String): Unit =
    nameParts(table).foreach(parts => refresh(session, if (parts.length == 2) catalogName +: parts else parts))

  private def refresh(session: classic.SparkSession, qualified: Seq[String]): Unit =
    Caches.refresh(session, qualified)

  // What Spark cannot parse as a name, no statement can have cached.
  private def nameParts(table: String): Option[Seq[String]] =
    try Some(CatalystSqlParser.parseMultipartIdentifier(table)) catch {
      case _: ParseException => None
    }
}
