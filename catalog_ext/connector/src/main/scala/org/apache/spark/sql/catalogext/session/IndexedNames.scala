package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.CatalogExtSessionCatalog
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog}

/** Tells which names are of tables in the index, for rules that come before Spark's own resolution. */
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

  /** The session catalog and what the name means there, where that is a table of the index. */
  def inSession(name: Seq[String]): Option[(CatalogExtSessionCatalog, Identifier)] = name match {
    case CatalogAndIdentifier(catalog: CatalogExtSessionCatalog, ident) if catalog.has(ident) => Some((catalog, ident))
    case _ => None
  }

  def sessionNamespace(name: Seq[String]): Option[Array[String]] = name match {
    case CatalogAndNamespace(_: CatalogExtSessionCatalog, namespace) => Some(namespace.toArray)
    case _ => None
  }

  private def isTemporary(name: Seq[String]): Boolean = catalogManager.v1SessionCatalog.isTempView(name)
}
