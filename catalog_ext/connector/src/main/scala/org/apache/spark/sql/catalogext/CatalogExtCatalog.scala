package org.apache.spark.sql.catalogext

import java.util
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.commands.{LoadedProcedure, ServiceProcedure}
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.release.{CatalogWithViews, DefinedTables, Definitions, LikeTables,
  ListedProcedures, StateOptions, SummarizedTables}
import org.apache.spark.sql.catalogext.service.{CatalogExtAnalysisException, ConnectorErrors}
import org.apache.spark.sql.catalogext.session.{CreatedFormats, DelegatedTable, GuardedRegistration}
import org.apache.spark.sql.catalogext.views.ViewOperations
import org.apache.spark.sql.catalyst.analysis.{NonEmptyNamespaceException, NoSuchNamespaceException,
  NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.connector.catalog.{DelegatingCatalogExtension, Identifier, NamespaceChange, StagedTable,
  SupportsNamespaces, Table, TableCatalog, TableChange, TableWritePrivilege}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The catalog class of `spark.sql.catalog.<name>`. All its tables and views are in the index. */
class CatalogExtCatalog extends CatalogWithViews {
  private var viewOperations: ViewOperations = _

  override protected def views: ViewOperations = viewOperations

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    super.initialize(name, options)
    viewOperations = new ViewOperations(name, client, namespaces)
  }
}

/**
 * The class of `spark.sql.catalog.spark_catalog`: Spark's own session catalog, extended with the tables of the index.
 *
 * A table name is looked up in the index first, and then in Spark's catalog. Namespaces and functions are Spark's; a
 * namespace that only the index has is created in Spark's catalog when a statement first names it.
 *
 * The class must be a DelegatingCatalogExtension: only for such a class does Spark still run its own commands on its
 * own tables.
 */
class CatalogExtSessionCatalog extends DelegatingCatalogExtension with DefinedTables with LikeTables with SummarizedTables
  with StateOptions with ListedProcedures {
  private val ours = new CatalogExtCatalog

  /** The tables of the index alone, without Spark's own tables, as a catalog with the same name. */
  def indexed: CatalogExtCatalog = ours

  override protected def own: TableCatalog with SupportsNamespaces = delegate.asInstanceOf[TableCatalog with SupportsNamespaces]

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = ours.initialize(name, options)

  // Tables

  override def loadTable(ident: Identifier): Table = oursOr(ident)(shown(ours.loadTable(ident)))(own.loadTable(ident))
  override def loadTable(ident: Identifier, privileges: util.Set[TableWritePrivilege]): Table =
    oursOr(ident)(shown(ours.loadTable(ident, privileges)))(own.loadTable(ident, privileges))
  override def loadTable(ident: Identifier, version: String): Table =
    oursOr(ident)(shown(ours.loadTable(ident, version)))(own.loadTable(ident, version))
  override def loadTable(ident: Identifier, timestamp: Long): Table =
    oursOr(ident)(shown(ours.loadTable(ident, timestamp)))(own.loadTable(ident, timestamp))

  override def tableExists(ident: Identifier): Boolean = has(ident) || own.tableExists(ident)
  override def invalidateTable(ident: Identifier): Unit = {
    ours.invalidateTable(ident)
    own.invalidateTable(ident)
  }

  /**
   * Whether the index has the table. This takes one request to the service; none for a name that no table of the index
   * can have.
   */
  def has(ident: Identifier): Boolean = SessionNames.possible(ident) && ours.tableExists(ident)

  override def listTables(namespace: Array[String]): Array[Identifier] = {
    val listed = indexedIn(namespace)
    val others =
      if (listed.isEmpty || own.namespaceExists(namespace)) own.listTables(namespace) else Array.empty[Identifier]
    // Spark's catalog returns database names in lower case, however the statement spells them.
    val (persistent, temporary) =
      others.partition(_.namespace().map(_.toLowerCase(Locale.ROOT)).sameElements(namespace.map(_.toLowerCase(Locale.ROOT))))
    val missing = listed.filterNot(table => persistent.exists(_.name().equalsIgnoreCase(table.name())))
    (persistent ++ missing).sortBy(_.name()) ++ temporary
  }

  /** The tables of the index in a namespace; empty if the index does not have the namespace. */
  def indexedIn(namespace: Array[String]): Array[Identifier] =
    if (namespace.length != 1 || !SessionNames.valid(namespace.head)) Array.empty
    else try ours.listTables(namespace) catch { case _: NoSuchNamespaceException => Array.empty }

  override def createTable(ident: Identifier, info: TableInfo): Table =
    if (CatalogExtSource.isProviderOf(info)) {
      prepare(ident)
      ours.createTable(ident, CatalogExtSource.withFormat(info))
    } else if (has(ident)) throw new TableAlreadyExistsException(ident)
    else Definitions.create(own, ident, info)

  override def stageCreate(ident: Identifier, info: TableInfo): StagedTable =
    if (CatalogExtSource.isProviderOf(info)) {
      prepare(ident)
      ours.stageCreate(ident, CatalogExtSource.withFormat(info))
    } else DelegatedTable.create(own, ident, info)

  override def stageReplace(ident: Identifier, info: TableInfo): StagedTable =
    if (CatalogExtSource.isProviderOf(info)) {
      refuseToHide(ident)
      ours.stageReplace(ident, CatalogExtSource.withFormat(info))
    } else {
      own.dropTable(ident)
      DelegatedTable.create(own, ident, info)
    }

  override def stageCreateOrReplace(ident: Identifier, info: TableInfo): StagedTable =
    if (CatalogExtSource.isProviderOf(info)) {
      refuseToHide(ident)
      prepare(ident)
      ours.stageCreateOrReplace(ident, CatalogExtSource.withFormat(info))
    } else {
      own.dropTable(ident)
      DelegatedTable.create(own, ident, info)
    }

  /**
   * Refuses to create a table that would hide a table of Spark's own, which would reappear when the new one is dropped.
   */
  private def refuseToHide(ident: Identifier): Unit =
    if (!has(ident) && own.tableExists(ident)) throw ConnectorErrors.notSupported(
      s"${name()}.$ident is a table of Spark's own and cannot become one of catalog-ext by REPLACE TABLE. Drop it " +
        s"first, or import it: CALL ${name()}.system.import_table('$ident').")

  override def createTableLike(ident: Identifier, info: TableInfo, source: Table): Table =
    source match {
      // CREATE TABLE LIKE copies a table of the index as a table of the index, unless the statement names a provider.
      case _: CatalogExtTable
          if CatalogExtSource.isProviderOf(info) || !info.properties.containsKey(TableCatalog.PROP_PROVIDER) =>
        prepare(ident)
        ours.createTableLike(ident, CatalogExtSource.withFormat(info, default = None), source)
      // In every catalog of catalog-ext the provider of a table is the format of its files.
      case _: CatalogExtTable if !info.properties.containsKey(TableCatalog.PROP_LOCATION) &&
          CreatedFormats.makes(ident, info.properties.get(TableCatalog.PROP_PROVIDER)) =>
        prepare(ident)
        ours.createTableLike(ident, info, source)
      case like: CatalogExtTable => Definitions.create(own, ident, CatalogExtSource.withKeys(info, like))
      case other => try LikeTables.create(own, ident, info, other) catch {
        case _: UnsupportedOperationException => throw ConnectorErrors.notSupported(
          s"Spark's own catalog makes no table like ${other.name()}, which is of another catalog. Make it by a query " +
            s"without rows: CREATE TABLE ${name()}.$ident AS SELECT * FROM ... LIMIT 0.")
      }
    }

  override def useNullableQuerySchema(): Boolean = own.useNullableQuerySchema()

  override def alterTable(ident: Identifier, changes: TableChange*): Table =
    oursOr(ident)(shown(ours.alterTable(ident, changes: _*)))(own.alterTable(ident, changes: _*))
  override def dropTable(ident: Identifier): Boolean =
    (SessionNames.possible(ident) && ours.dropTable(ident)) || own.dropTable(ident)
  override def purgeTable(ident: Identifier): Boolean =
    (SessionNames.possible(ident) && ours.purgeTable(ident)) || own.purgeTable(ident)
  override def renameTable(from: Identifier, to: Identifier): Unit =
    if (tableExists(to)) throw new TableAlreadyExistsException(to)
    else if (has(from)) {
      prepareNamespace(to.namespace().takeRight(1))
      ours.renameTable(from, to)
    }
    else own.renameTable(from, to)

  // Namespaces

  override def namespaceExists(namespace: Array[String]): Boolean = own.namespaceExists(namespace) || copyNamespace(namespace)
  override def listNamespaces(): Array[Array[String]] = {
    val listed = own.listNamespaces()
    val more = ours.listNamespaces().filterNot(name => listed.exists(_.sameElements(name)))
    if (more.isEmpty) listed else (listed ++ more).sortBy(_.head)
  }
  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces() else { ensureNamespace(namespace); own.listNamespaces(namespace) }
  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] = {
    ensureNamespace(namespace)
    own.loadNamespaceMetadata(namespace)
  }
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit = {
    ensureNamespace(namespace)
    own.alterNamespace(namespace, changes: _*)
    if (indexKnows(namespace)) ours.alterNamespace(namespace, changes: _*)
  }

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    val listed = indexedIn(namespace)
    if (listed.nonEmpty && !cascade) throw NonEmptyNamespaceException(
      namespace, s"it has tables of catalog-ext: ${listed.take(3).map(_.name()).mkString(", ")}")
    val known = indexKnows(namespace)
    // Spark refuses to drop a namespace with tables. It must do so before the index is changed.
    if (!cascade) own.dropNamespace(namespace, false)
    listed.foreach(ours.dropTable)
    if (cascade) own.dropNamespace(namespace, true)
    if (known) ours.dropNamespace(namespace, cascade)
    true
  }

  private def indexKnows(namespace: Array[String]): Boolean =
    namespace.length == 1 && SessionNames.valid(namespace.head) && ours.namespaceExists(namespace)

  private def ensureNamespace(namespace: Array[String]): Unit =
    if (!own.namespaceExists(namespace)) copyNamespace(namespace)

  /**
   * If a namespace exists in the index only, creates it in Spark's catalog too, where functions, views and Spark's
   * tables need it. Returns whether it did.
   */
  private def copyNamespace(namespace: Array[String]): Boolean = indexKnows(namespace) && {
    own.createNamespace(namespace, util.Map.of())
    true
  }

  /** Creates the namespace of a new table in the index, with the properties of Spark's catalog. */
  private def prepare(ident: Identifier): Unit = {
    if (own.tableExists(ident) && !has(ident)) throw new TableAlreadyExistsException(ident)
    prepareNamespace(ident.namespace())
  }

  private def prepareNamespace(namespace: Array[String]): Unit =
    if (namespace.nonEmpty && !indexKnows(namespace) && own.namespaceExists(namespace)) {
      val metadata = own.loadNamespaceMetadata(namespace).asScala
      val copied = Seq(SupportsNamespaces.PROP_LOCATION, SupportsNamespaces.PROP_COMMENT)
        .flatMap(key => metadata.get(key).filter(_.nonEmpty).map(key -> _)).toMap
      ours.createNamespace(namespace, copied.asJava)
    }

  // Procedures

  override def loadProcedure(ident: Identifier): UnboundProcedure = ours.loadProcedure(ident) match {
    case LoadedProcedure(procedure: ServiceProcedure) if procedure.name() == "register_table" =>
      LoadedProcedure(new GuardedRegistration(procedure, own, prepareNamespace))
    case other => other
  }
  override def listProcedures(namespace: Array[String]): Array[Identifier] = ours.listProcedures(namespace)

  /**
   * Uses the table of the index, or Spark's catalog if the index lacks the table. An unavailable service must stay an
   * error; otherwise the statement would run on another table.
   */
  private def oursOr[T](ident: Identifier)(ours: => T)(other: => T): T =
    if (!SessionNames.possible(ident)) other
    else try ours catch {
      case _: NoSuchTableException | _: NoSuchNamespaceException => other
      // Let Spark's catalog fail for a name of three parts that does not exist: Spark's own error describes it better.
      case e: CatalogExtAnalysisException if e.getCondition == ConnectorErrors.MetadataTableNotFound.code => other
    }

  /**
   * In the session catalog partition columns are ordinary columns, unless the table or the session sets another mode:
   * existing queries must keep their results.
   */
  private def shown(table: Table): Table = table match {
    case ours: CatalogExtTable => ours.inSessionCatalog(SQLConf.get)
    case other => other
  }
}

/**
 * Checks whether a name can be a table of the index. A path such as ``parquet.`/data/x` `` cannot, and costs no
 * request.
 */
object SessionNames {
  private val Valid = "[\\p{L}\\p{M}\\p{N}_][\\p{L}\\p{M}\\p{N}_\\- ]*".r
  private val MaxLength = 128

  def valid(name: String): Boolean = name.codePointCount(0, name.length) <= MaxLength && Valid.matches(name)

  def possible(ident: Identifier): Boolean = {
    val levels = ident.namespace()
    (levels.length == 1 || MetadataTable.below(ident).isDefined) &&
      levels.forall(valid) && valid(ident.name())
  }
}
