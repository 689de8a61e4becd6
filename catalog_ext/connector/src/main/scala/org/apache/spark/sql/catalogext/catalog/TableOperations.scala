package org.apache.spark.sql.catalogext.catalog

import java.util.Locale

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.commands.PartitionClauses
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.paths.AdHocPaths
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.release.Views.Relation
import org.apache.spark.sql.catalogext.scan.ListedRelations
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.stream.StreamingQueries
import org.apache.spark.sql.catalogext.views.CatalogExtView
import org.apache.spark.sql.catalogext.write.{SparkWriteKind, WriteSettings}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException,
  TableAlreadyExistsException}
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableChange, TableWritePrivilege}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Spark's table operations, as requests to the service. */
class TableOperations(catalogName: String, client: ServiceClient, namespaces: NamespaceOperations) {
  import TableOperations._

  private val definitions = new TableDefinitions(catalogName)
  val paths = new AdHocPaths(catalogName, client)

  def list(namespace: Array[String]): Array[Identifier] = {
    if (namespace.isEmpty) throw ConnectorErrors.analysis(ConnectorErrors.InvalidIdentifier,
      s"Tables lie in namespaces: name one, as in SHOW TABLES IN $catalogName.sales; SHOW NAMESPACES IN $catalogName " +
        "lists them.")
    val name = namespaces.single(namespace)
    // Listings print the namespace of these identifiers. Names in the index are in lower case.
    val kept = Array(name.toLowerCase(Locale.ROOT))
    ServiceException.translatingTo {
      case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(namespace)
    }(client.call("tables/list", obj("namespace" -> text(name))))
      .items("tables").map(node => Identifier.of(kept, node.asText())).toArray
  }

  /** The table, or one of its metadata tables: `sales.trips.history`, and `trips.history` after USE. */
  def load(ident: Identifier): Table = loadRelation(ident) match {
    case table: Table => table
    case _ => throw new NoSuchTableException(ident)
  }

  /** The table at an earlier version. A text of digits is the number of a version, another text a tag. */
  def loadVersion(ident: Identifier, version: String): Table =
    if (version.isEmpty || !version.forall(char => char >= '0' && char <= '9')) {
      loadAsOf(ident, "tag" -> text(version))
    } else {
      val number = version.toLongOption.getOrElse(throw ConnectorErrors.analysis(
        ConnectorErrors.VersionNotFound,
        s"Table $catalogName.$ident has no version '$version': give the number of a version, as the metadata table " +
          "`history` lists them.", Map("table" -> ident.toString, "version" -> version)))
      loadAsOf(ident, "version" -> long(number))
    }

  /** The table at its newest version at a time, in microseconds since the epoch. */
  def loadTime(ident: Identifier, micros: Long): Table =
    loadAsOf(ident, "timestamp_ms" -> long(Math.floorDiv(micros, 1000L)))

  private def loadAsOf(ident: Identifier, asOf: AsOf): Table = {
    if (paths.named(ident)) throw AdHocPaths.withoutVersions(ident.name())
    val found = registered(ident, Some(asOf)) match {
      case table: Table => table
      case _ => throw ConnectorErrors.notSupported(
        s"The view $catalogName.$ident has no versions: read its tables as of a version.")
    }
    refuseSinglePass(s"$catalogName.$ident")
    found
  }

  /** The table, metadata table or view of a name, by one request. */
  def loadRelation(ident: Identifier): Relation = {
    val relation = found(ident)
    refuseSinglePass(s"$catalogName.$ident")
    ListedRelations.addTo(classic.SparkSession.active)
    relation
  }

  /**
   * Spark's single-pass analyzer is not supported. Spark's own error names a plan class and no remedy. Within a view
   * the view's settings hold.
   */
  private def refuseSinglePass(name: String): Unit =
    if (classic.SparkSession.active.sessionState.conf.getConfString(SinglePass, "false").toBoolean) throw ConnectorErrors.notSupported(
      s"$name cannot be read while Spark's single-pass analyzer is on, which knows no tables of catalogs and no commands " +
        s"yet. Turn it off, which it takes from the program alone: spark.conf.set('$SinglePass', 'false').")

  private def found(ident: Identifier): Relation = paths.find(ident).getOrElse(registered(ident))

  /** The table, metadata table or view of a name, at the version that a query names. */
  private def registered(ident: Identifier, asOf: Option[AsOf] = None): Relation = metadataTable(ident, asOf).getOrElse {
    try {
      val node = described(ident, asOf = asOf)
      if (isView(node)) CatalogExtView.fromJson(catalogName, client, node)
      else table(TableMetadata.fromJson(node).copy(pinned = asOf.isDefined))
    } catch {
      case e: NoSuchTableException =>
        MetadataTable.completed(currentNamespace, ident).flatMap(metadataTableOrNone(_, asOf)).getOrElse(throw e)
    }
  }

  private def metadataTable(ident: Identifier, asOf: Option[AsOf] = None): Option[Table] =
    MetadataTable.below(ident).map { case (of, name) =>
      MetadataTable.fromJson(catalogName, client, name, tableNode(of, Some(name), asOf), pinned = asOf.isDefined)
    }

  private def metadataTableOrNone(ident: Identifier, asOf: Option[AsOf] = None): Option[Table] = try metadataTable(ident, asOf) catch {
    case _: NoSuchTableException => None
  }

  /** Metadata tables are read-only. */
  private def refuseMetadataTable(ident: Identifier): Unit = if (MetadataTable.below(ident).isDefined) {
    metadataTable(ident).foreach(found => throw MetadataTable.readOnly(found.name()))
  }

  /** The namespace for names without one; empty while another catalog than this is the current one. */
  private def currentNamespace: Array[String] = {
    val manager = classic.SparkSession.active.sessionState.catalogManager
    if (manager.currentCatalog.name() == catalogName) manager.currentNamespace else Array.empty
  }

  /** The table with all partition columns after the data columns, for statements that write. */
  def loadForWrite(ident: Identifier, privileges: Set[TableWritePrivilege]): Table = {
    refuseMetadataTable(ident)
    val loaded = try metadata(ident) catch {
      case e: NoSuchTableException =>
        MetadataTable.completed(currentNamespace, ident).foreach { whole =>
          metadataTableOrNone(whole).foreach(found => throw MetadataTable.readOnly(found.name()))
        }
        throw e
    }
    val columns = if (privileges.contains(TableWritePrivilege.INSERT)) {
      refuseHiddenKeys(loaded)
      loaded.writeSchema
    } else {
      // DELETE names keys in conditions only. Spark would wrap a CHAR column in a padding expression that DELETE cannot
      // push down.
      val keys = PartitionColumns.visible(loaded, SQLConf.get.resolver)
      StructType((loaded.columns ++ keys).map(f => f.copy(dataType = PartitionColumns.plain(f.dataType))))
    }
    new CatalogExtTable(
      catalogName, loaded, client,
      ResolvedSettings.virtualColumnsShown(client, catalogName, loaded, SQLConf.get), Some(columns),
      versioned = privileges.contains(TableWritePrivilege.INSERT))
  }

  /**
   * Refuses a write to a table in which a data column hides a partition column of the same name: it is undefined which
   * of the two a value is for.
   */
  private def refuseHiddenKeys(table: TableMetadata): Unit = {
    val resolver = SQLConf.get.resolver
    val hidden = table.partitionColumns.fieldNames.filter(key => table.columns.fieldNames.exists(resolver(_, key)))
    if (hidden.nonEmpty) throw ConnectorErrors.notSupported(
      s"Table $catalogName.${table.qualifiedName} cannot be written: it has a data column and a partition column of " +
        s"the name '${hidden.head}', and a row has one value for it. Register the table again without the data column.")
  }

  // Spark tests for existence by loading the table, so a missing namespace must be reported as a missing table.
  private def metadata(ident: Identifier): TableMetadata = TableMetadata.fromJson(tableNode(ident))

  private def tableNode(
      ident: Identifier, metadataTable: Option[String] = None, asOf: Option[AsOf] = None): JsonNode = {
    val node = described(ident, metadataTable, asOf)
    if (isView(node)) throw new NoSuchTableException(ident)
    node
  }

  private def isView(node: JsonNode): Boolean = node.string("table_type") == "VIEW"

  private def described(
      ident: Identifier, metadataTable: Option[String] = None, asOf: Option[AsOf] = None): JsonNode = try {
    val request = named(ident)
    asOf.foreach { case (field, value) => request.set[JsonNode](field, value) }
    StreamingQueries.awaitEnds(s"${ident.namespace().head}.${ident.name()}")
    metadataTable.foreach(request.put("metadata", _))
    translating(ident)(client.call("tables/load", request))
  } catch {
    case _: NoSuchNamespaceException => throw new NoSuchTableException(ident)
  }

  def exists(ident: Identifier): Boolean = if (paths.named(ident)) paths.exists(ident.name()) else try {
    MetadataTable.below(ident) match {
      case Some((of, name)) => MetadataTable.isIn(tableNode(of, Some(name)))
      case None =>
        // Load the JSON only, without converting the columns: a table with a type that this Spark lacks exists too, and
        // can be dropped.
        tableNode(ident)
        true
    }
  } catch {
    case _: NoSuchTableException => false
  }

  def create(ident: Identifier, info: TableInfo): CatalogExtTable =
    table(TableMetadata.fromJson(
      translating(ident)(client.call("tables/create", definition(ident, info), limited = false))))

  /** The table that a CREATE or REPLACE is about to create. The service is asked only for the resulting definition. */
  def stage(ident: Identifier, info: TableInfo, kind: SparkWriteKind): StagedCatalogExtTable = {
    val request = definition(ident, info)
    val (columns, keys) = definitions.split(ident, info.schema(), info.partitions.toSeq)
    val properties = request.stringMap("properties")
    val settings = ResolvedSettings.ofNewTable(client, s"${ident.namespace().head}.${ident.name()}", properties)
    val stated = TableMetadata(
      tableId = -1, namespace = ident.namespace().head, name = ident.name(), tableType = request.string("table_type"),
      format = "", location = request.stringOption("location").getOrElse(""), columns, keys,
      notNull = info.schema().filterNot(_.nullable).map(_.name).toSet, declared = true, request.stringMap("options"),
      properties, request.stringOption("comment"), owner = None, version = -1,
      totals = TableTotals(0, 0, 0, Some(0)), settings)
    val hive = new WriteSettings(client, catalogName, stated, CaseInsensitiveStringMap.empty(), SQLConf.get).hiveStrategy
    val schema = StructType(info.schema().map { field =>
      if (hive && keys.contains(field)) field.copy(nullable = false) else field
    })
    val question = StagedCatalogExtTable.withoutNull(request, schema).put("dry_run", true)
    val answer = translating(ident)(client.call("tables/create", question, limited = false))
    val metadata = stated.copy(
      format = answer.string("format"), options = answer.stringMap("options"),
      properties = answer.stringMap("properties"), notNull = schema.filterNot(_.nullable).map(_.name).toSet)
    new StagedCatalogExtTable(catalogName, client, metadata, kind, schema, request)
  }

  /** CREATE TABLE ... LIKE. */
  def createLike(ident: Identifier, info: TableInfo, source: Table): CatalogExtTable = {
    named(ident)
    table(TableMetadata.fromJson(
      translating(ident)(client.call("tables/create", definitions.like(ident, info, source), limited = false))))
  }

  private def definition(ident: Identifier, info: TableInfo): ObjectNode = {
    named(ident)
    definitions.request(ident, info)
  }

  def alter(ident: Identifier, changes: Seq[TableChange]): CatalogExtTable = {
    refuseMetadataTable(ident)
    val request = TableAlterations.addTo(named(ident), changes, () => metadata(ident))
    table(TableMetadata.fromJson(translating(ident)(client.call("tables/alter", request, limited = false))))
  }

  /** RENAME TO. A name without a namespace stays in the table's namespace; the catalog's name may precede it. */
  def rename(from: Identifier, to: Identifier): Unit = {
    refuseMetadataTable(from)
    val request = named(from)
    val namespace = to.namespace().toSeq match {
      case Seq() => from.namespace().head
      case Seq(name) => name
      case Seq(catalog, name) if catalog == catalogName => name
      case _ => throw ConnectorErrors.analysis(ConnectorErrors.InvalidIdentifier,
        s"Table $catalogName.$from cannot be renamed to ${to.namespace().mkString(".")}.${to.name()}: a name is " +
          "table, namespace.table, or those with the catalog's own name in front.")
    }
    request.put("to_namespace", namespace)
    request.put("to_name", to.name())
    ServiceException.translatingTo {
      case e if e.is("TABLE_NOT_FOUND") => new NoSuchTableException(from)
      case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(Array(namespace))
      case e if e.is("TABLE_ALREADY_EXISTS") =>
        new TableAlreadyExistsException(Identifier.of(Array(namespace), to.name()))
    }(client.call("tables/rename", request, limited = false))
  }

  def drop(ident: Identifier, purge: Boolean): Boolean = {
    refuseMetadataTable(ident)
    val request = named(ident)
    request.put("purge", purge)
    PartitionClauses.putLocks(catalogName, request)
    try ServiceException.translatingTo {
      case e if e.is("TABLE_NOT_FOUND") || e.is("NAMESPACE_NOT_FOUND") => new NoSuchTableException(ident)
    }(client.call("tables/drop", request, limited = false)).field("dropped").asBoolean()
    catch { case _: NoSuchTableException => false }
  }

  private def table(metadata: TableMetadata): CatalogExtTable =
    new CatalogExtTable(
      catalogName, metadata, client, ResolvedSettings.virtualColumnsShown(client, catalogName, metadata, SQLConf.get))

  private def named(ident: Identifier) = {
    paths.checkNoPath(ident)
    if (ident.namespace().length != 1) throw new NoSuchTableException(ident)
    else obj("namespace" -> text(ident.namespace().head), "name" -> text(ident.name()))
  }

  private def translating[T](ident: Identifier)(body: => T): T = ServiceException.translatingTo {
    case e if e.is("TABLE_NOT_FOUND") => new NoSuchTableException(ident)
    case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(ident.namespace())
    case e if e.is("TABLE_ALREADY_EXISTS") => new TableAlreadyExistsException(ident)
  }(body)
}

private object TableOperations {
  /** A field of `tables/load` that names a version, and its value. */
  type AsOf = (String, JsonNode)

  val SinglePass = "spark.sql.analyzer.singlePassResolver.enabled"
}
