package org.apache.spark.sql.catalogext.catalog

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.commands.{ProcedureOperations, ProcedureSignature}
import org.apache.spark.sql.catalogext.paths.AdHocPaths
import org.apache.spark.sql.catalogext.release.{DefinedTables, LikeTables, ListedProcedures, ListedTables}
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalogext.session.ConnectorJars
import org.apache.spark.sql.catalogext.write.SparkWriteKind
import org.apache.spark.sql.catalyst.analysis.{NoSuchFunctionException, NoSuchNamespaceException}
import org.apache.spark.sql.connector.catalog.{FunctionCatalog, Identifier, NamespaceChange, StagedTable, SupportsNamespaces,
  Table, TableCatalogCapability, TableChange, TableWritePrivilege}
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The part that both catalogs share: it implements Spark's interfaces by the operations on tables and namespaces.
 *
 * `CatalogExtCatalog` has tables of the index only. `CatalogExtSessionCatalog` wraps one and adds its tables to Spark's
 * session catalog. A rule tests for this trait if all names of a catalog must be in the index; in the session catalog
 * they are not.
 */
trait CatalogBase extends DefinedTables with LikeTables with ListedTables with SupportsNamespaces with ListedProcedures
  with FunctionCatalog {
  private var catalogName: String = _
  private var serviceClient: ServiceClient = _
  private var namespaceOperations: NamespaceOperations = _
  private var tableOperations: TableOperations = _
  private var procedureOperations: ProcedureOperations = _

  protected def client: ServiceClient = serviceClient
  protected def namespaces: NamespaceOperations = namespaceOperations
  protected def tables: TableOperations = tableOperations
  protected def procedures: ProcedureOperations = procedureOperations
  private[catalogext] def paths: AdHocPaths = tables.paths

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    ConnectorJars.checkSpark()
    ConnectorJars.shareSubmitted()
    catalogName = name
    serviceClient = CatalogOptions.client(name, options)
    namespaceOperations = new NamespaceOperations(catalogName, client)
    tableOperations = new TableOperations(name, client, namespaceOperations)
    procedureOperations = new ProcedureOperations(name, client)
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
  override def loadTable(ident: Identifier): Table = tables.load(ident)
  override def loadTable(ident: Identifier, version: String): Table = tables.loadVersion(ident, version)
  override def loadTable(ident: Identifier, timestamp: Long): Table = tables.loadTime(ident, timestamp)
  // Loads the target of a statement that writes.
  override def loadTable(ident: Identifier, privileges: util.Set[TableWritePrivilege]): Table =
    tables.loadForWrite(ident, privileges.asScala.toSet)
  override def capabilities(): util.Set[TableCatalogCapability] =
    util.EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE)
  override def tableExists(ident: Identifier): Boolean = tables.exists(ident)
  override def createTable(ident: Identifier, info: TableInfo): Table = tables.create(ident, info)
  override def createTableLike(ident: Identifier, info: TableInfo, source: Table): Table =
    tables.createLike(ident, info, source)
  override def stageCreate(ident: Identifier, info: TableInfo): StagedTable =
    tables.stage(ident, info, SparkWriteKind.Create)
  override def stageReplace(ident: Identifier, info: TableInfo): StagedTable =
    tables.stage(ident, info, SparkWriteKind.Replace)
  override def stageCreateOrReplace(ident: Identifier, info: TableInfo): StagedTable =
    tables.stage(ident, info, SparkWriteKind.CreateOrReplace)
  override def alterTable(ident: Identifier, changes: TableChange*): Table = tables.alter(ident, changes)
  override def dropTable(ident: Identifier): Boolean = tables.drop(ident, purge = false)
  override def purgeTable(ident: Identifier): Boolean = tables.drop(ident, purge = true)
  override def renameTable(from: Identifier, to: Identifier): Unit = tables.rename(from, to)

  // The catalog has no functions. Spark calls these methods for each catalog on the path of SET PATH when it looks for
  // one.
  override def listFunctions(namespace: Array[String]): Array[Identifier] = Array.empty
  override def loadFunction(ident: Identifier): UnboundFunction = throw new NoSuchFunctionException(ident)

  override def loadProcedure(ident: Identifier): UnboundProcedure = procedures.load(ident)
  override def listProcedures(namespace: Array[String]): Array[Identifier] = procedures.list(namespace)
  def procedureSignatures(namespace: Array[String]): Seq[ProcedureSignature] = procedures.signatures(namespace)
}
