package org.apache.spark.sql.catalogext

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The catalog that `spark.sql.catalog.<name>` names.
 *
 * It only joins the three groups of operations to Spark's interfaces, so that another leaf (the session catalog, one
 * with views) can join the same groups to others.
 */
class CatalogExtCatalog extends TableCatalog with SupportsNamespaces with ProcedureCatalog {
  private var catalogName: String = _
  private var namespaces: NamespaceOperations = _
  private var tables: TableOperations = _
  private var procedures: ProcedureOperations = _

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    BuiltFor.check()
    catalogName = name
    val client = CatalogOptions.client(name, options)
    namespaces = new NamespaceOperations(client)
    tables = new TableOperations(name, client, namespaces)
    procedures = new ProcedureOperations(name, client)
  }

  override def name(): String = catalogName
  override def defaultNamespace(): Array[String] = Array("default")

  override def listNamespaces(): Array[Array[String]] = namespaces.list()
  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) namespaces.list()
    else if (namespaces.exists(namespace)) Array.empty
    else throw new NoSuchNamespaceException(namespace)
  override def namespaceExists(namespace: Array[String]): Boolean = namespaces.exists(namespace)
  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] =
    namespaces.load(namespace).asJava
  override def createNamespace(namespace: Array[String], properties: util.Map[String, String]): Unit =
    namespaces.create(namespace, properties.asScala.toMap)
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    namespaces.alter(namespace, changes)
  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = namespaces.drop(namespace, cascade)

  override def listTables(namespace: Array[String]): Array[Identifier] = tables.list(namespace)
  override def loadTable(ident: Identifier): Table =
    // Spark asks whether a table is there by loading it; a missing namespace then is a missing table.
    try tables.load(ident) catch {
      case _: NoSuchNamespaceException => throw new NoSuchTableException(ident)
    }
  override def tableExists(ident: Identifier): Boolean =
    try tables.exists(ident) catch {
      case _: NoSuchNamespaceException => false
    }
  override def createTable(ident: Identifier, info: TableInfo): Table = tables.create(ident, info)
  override def alterTable(ident: Identifier, changes: TableChange*): Table = tables.alter(ident, changes)
  override def dropTable(ident: Identifier): Boolean = tables.drop(ident, purge = false)
  override def purgeTable(ident: Identifier): Boolean = tables.drop(ident, purge = true)
  override def renameTable(from: Identifier, to: Identifier): Unit = throw ConnectorErrors.notSupported(
    s"This version of catalog-ext has no ALTER TABLE ... RENAME TO (table $catalogName.$from).")

  override def loadProcedure(ident: Identifier): UnboundProcedure = procedures.load(ident)
  override def listProcedures(namespace: Array[String]): Array[Identifier] = procedures.list(namespace)
}
