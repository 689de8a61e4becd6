package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable}
import org.apache.spark.sql.catalogext.release.{Caches, SearchPath}
import org.apache.spark.sql.catalogext.{CatalogExtSessionCatalog, SessionNames}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog, TableCatalog}
import org.apache.spark.sql.{classic, SparkSession}

/** Finds names of tables in the index, for rules that run before Spark's resolution. */
class IndexedNames(session: SparkSession) extends LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  /** The session catalog if it is this connector's class. */
  def sessionCatalog: Option[CatalogExtSessionCatalog] = catalogManager.v2SessionCatalog match {
    case catalog: CatalogExtSessionCatalog => Some(catalog)
    case _ => None
  }

  /**
   * Whether the name belongs to a table of the index: always in a catalog of this connector; in the session catalog the
   * index is asked.
   */
  def areIndexed(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(_: CatalogBase, _) => true
    case _ => !isTemporary(name) && inSession(name).isDefined
  }

  /**
   * The full name that a name in a query, or an INSERT's target, refers to: the first existing one on Spark's search
   * path.
   */
  def onPath(name: Seq[String]): Seq[String] = SearchPath.candidates(catalogManager, name) match {
    case Seq(one) => one
    case _ if isTemporary(name) => name
    case several => several.find(isThere).getOrElse(name)
  }

  private def isThere(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(catalog: TableCatalog, ident) => catalog.tableExists(ident)
    case _ => false
  }

  /** The session catalog and the table's identifier if the name is a table of the index there. */
  def inSession(name: Seq[String]): Option[(CatalogExtSessionCatalog, Identifier)] = name match {
    case CatalogAndIdentifier(catalog: CatalogExtSessionCatalog, ident) if catalog.has(ident) => Some((catalog, ident))
    case _ => None
  }

  /** The table of this connector that the name refers to. */
  def table(name: Seq[String]): Option[CatalogExtTable] = name match {
    case CatalogAndIdentifier(catalog, ident) =>
      try catalog.asTableCatalog.loadTable(ident) match {
        case table: CatalogExtTable => Some(table)
        case _ => None
      } catch { case _: NoSuchTableException | _: NoSuchNamespaceException => None }
    case _ => None
  }

  /**
   * The identifier of a name in the session catalog; None if that is not this connector's class, or if no table of the
   * index can have the name.
   */
  def possibleInSession(name: Seq[String]): Option[Identifier] = name match {
    case CatalogAndIdentifier(_: CatalogExtSessionCatalog, ident) if SessionNames.possible(ident) => Some(ident)
    case _ => None
  }

  /** The catalog and the identifier that a name refers to. */
  def tableCatalog(name: Seq[String]): (TableCatalog, Identifier) = name match {
    case CatalogAndIdentifier(catalog, ident) => (catalog.asTableCatalog, ident)
  }

  def sessionNamespace(name: Seq[String]): Option[Array[String]] = name match {
    case CatalogAndNamespace(_: CatalogExtSessionCatalog, namespace) => Some(namespace.toArray)
    case _ => None
  }

  private def isTemporary(name: Seq[String]): Boolean = catalogManager.v1SessionCatalog.isTempView(name)
}

/** Invalidates cached tables and plans after a command has changed a table. Spark caches both by name. */
object CachedPlans {
  /** Makes cached data of `table` reload at the next use. */
  def refresh(session: classic.SparkSession, table: CatalogExtTable): Unit =
    refresh(session, Seq(table.catalogName, table.metadata.namespace, table.metadata.name))

  /** Makes cached data reload for a table that a procedure names, possibly without the catalog. */
  def refresh(session: classic.SparkSession, catalogName: String, table: String): Unit =
    TableArgument.parts(table).foreach(parts => refresh(session, if (parts.length == 2) catalogName +: parts else parts))

  private def refresh(session: classic.SparkSession, qualified: Seq[String]): Unit =
    Caches.refresh(session, qualified)
}

/**
 * The name of a table in an argument of a procedure. The service accepts names without backticks that Spark's parser
 * refuses, such as `my-db.t`.
 */
object TableArgument {
  private val Part = "(?:^|(?<=\\.))(?:`((?:[^`]|``)*)`|([^`.]*))(?=\\.|$)".r

  /** The two or three parts of the name, as `TableIdentifier.parse` of Python reads it; None for any other text. */
  def parts(text: String): Option[Seq[String]] = {
    val found = Part.findAllMatchIn(text)
      .map(part => Option(part.group(1)).fold(part.group(2))(_.replace("``", "`"))).toSeq
    Option.when(found.length == 2 || found.length == 3)(found)
  }
}
