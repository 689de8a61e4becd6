package org.apache.spark.sql.catalogext

import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.Json._
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException,
  TableAlreadyExistsException}
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog, TableChange, TableInfo,
  TableWritePrivilege}
import org.apache.spark.sql.connector.expressions.{IdentityTransform, Transform}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Spark's table operations as calls of the service. */
class TableOperations(catalogName: String, client: ServiceClient, namespaces: NamespaceOperations) {

  def list(namespace: Array[String]): Array[Identifier] = {
    if (namespace.isEmpty) throw ConnectorErrors.analysis("CATALOG_EXT_INVALID_IDENTIFIER",
      s"Tables lie in namespaces: name one, as in SHOW TABLES IN $catalogName.sales; SHOW NAMESPACES IN $catalogName " +
        "lists them.")
    val name = namespaces.single(namespace)
    ServiceException.translatingTo {
      case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(namespace)
    }(client.call("tables/list", obj("namespace" -> text(name))))
      .items("tables").map(node => Identifier.of(namespace, node.asText())).toArray
  }

  /** The table, or one of its metadata tables: `sales.trips.history`, and `trips.history` after USE. */
  def load(ident: Identifier): Table = metadataTable(ident).getOrElse {
    try table(metadata(ident)) catch {
      case e: NoSuchTableException =>
        MetadataTable.completed(currentNamespace, ident).flatMap(metadataTableOrNone).getOrElse(throw e)
    }
  }

  private def metadataTable(ident: Identifier): Option[Table] = MetadataTable.below(ident).map { case (of, name) =>
    val loaded = metadata(of)
    if (MetadataTable.named(ident).isEmpty) throw MetadataTable.unknown(s"$catalogName.${loaded.qualifiedName}", name)
    new MetadataTable(catalogName, loaded, client, name)
  }

  private def metadataTableOrNone(ident: Identifier): Option[Table] = try metadataTable(ident) catch {
    case _: NoSuchTableException => None
  }

  /** Metadata tables only show. */
  private def refuseMetadataTable(ident: Identifier): Unit = if (MetadataTable.below(ident).isDefined) {
    metadataTable(ident).foreach(found => throw MetadataTable.readOnly(found.name()))
  }

  /** Where names without a namespace lie; empty while another catalog is the current one. */
  private def currentNamespace: Array[String] = {
    val manager = classic.SparkSession.active.sessionState.catalogManager
    if (manager.currentCatalog.name() == catalogName) manager.currentNamespace else Array.empty
  }

  /** The table with its partition columns after the data columns, for statements that write. */
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
      // Only named in conditions; what Spark puts around a CHAR column, a DELETE of its own cannot take.
      val keys = PartitionColumns.visible(loaded, SQLConf.get.resolver)
      StructType((loaded.columns ++ keys).map(f => f.copy(dataType = PartitionColumns.plain(f.dataType))))
    }
    new CatalogExtTable(
      catalogName, loaded, client, ReadOptions.virtualColumnsShown(SQLConf.get), Some(columns))
  }

  /** Which of the two columns a row's value is for, nothing says. */
  private def refuseHiddenKeys(table: TableMetadata): Unit = {
    val resolver = SQLConf.get.resolver
    val hidden = table.partitionColumns.fieldNames.filter(key => table.columns.fieldNames.exists(resolver(_, key)))
    if (hidden.nonEmpty) throw ConnectorErrors.notSupported(
      s"Table $catalogName.${table.qualifiedName} cannot be written: it has a data column and a partition column of " +
        s"the name '${hidden.head}', and a row has one value for it. Register the table again without the data column.")
  }

  // Spark asks whether a table is there by loading it; a missing namespace then is a missing table.
  private def metadata(ident: Identifier): TableMetadata = try {
    StreamingQueries.awaitEnds()
    TableMetadata.fromJson(translating(ident)(client.call("tables/load", named(ident))))
  } catch {
    case _: NoSuchNamespaceException => throw new NoSuchTableException(ident)
  }

  def exists(ident: Identifier): Boolean = try {
    metadata(MetadataTable.named(ident).fold(ident)(_._1))
    true
  } catch {
    case _: NoSuchTableException => false
  }

  def create(ident: Identifier, info: TableInfo): CatalogExtTable =
    table(TableMetadata.fromJson(translating(ident)(client.call("tables/create", definition(ident, info)))))

  /** The table that a CREATE or REPLACE is about to make; nothing is sent yet but the question for the namespace. */
  def stage(ident: Identifier, info: TableInfo, kind: WriteKind): StagedCatalogExtTable = {
    val request = definition(ident, info)
    if (!namespaces.exists(ident.namespace())) throw new NoSuchNamespaceException(ident.namespace())
    val strategy = info.properties().asScala.find(_._1.equalsIgnoreCase("partition_strategy")).map(_._2)
    val (columns, keys) = split(ident, info.schema(), info.partitions().toSeq)
    val schema = StructType(info.schema().map { field =>
      if (strategy.exists(_.equalsIgnoreCase("hive")) && keys.contains(field)) field.copy(nullable = false) else field
    })
    val metadata = TableMetadata(
      tableId = -1, namespace = ident.namespace().head, name = ident.name(), tableType = request.string("table_type"),
      format = request.string("format"), location = request.stringOption("location").getOrElse(""), columns, keys,
      notNull = schema.filterNot(_.nullable).map(_.name).toSet, declared = true, request.stringMap("options"),
      request.stringMap("properties"), request.stringOption("comment"), owner = None, version = -1,
      totals = TableTotals(0, 0, 0, Some(0)))
    new StagedCatalogExtTable(catalogName, client, metadata, kind, schema, request)
  }

  /** The fields of `tables/create`. */
  private def definition(ident: Identifier, info: TableInfo): ObjectNode = {
    val properties = info.properties().asScala.toMap
    val (columns, keys) = split(ident, info.schema(), info.partitions().toSeq)
    val location = properties.get(TableCatalog.PROP_LOCATION)
    val (options, plain) = properties
      .filterNot { case (key, _) => TableOperations.Reserved.contains(key) }
      .partition { case (key, _) => key.startsWith(TableCatalog.OPTION_PREFIX) }
    val request = named(ident)
    request.setAll[JsonNode](java.util.Map.of(
      "table_type", text(if (location.isDefined) "EXTERNAL" else "MANAGED"),
      "format", text(format(properties)),
      "location", text(location),
      "columns", arr(columns.map(TableMetadata.columnJson)),
      "partition_columns", arr(keys.map(TableMetadata.columnJson)),
      "options", map(options.map { case (key, value) => key.stripPrefix(TableCatalog.OPTION_PREFIX) -> value }),
      // Spark gives every option twice, once without the prefix.
      "properties", map(plain -- options.keys.map(_.stripPrefix(TableCatalog.OPTION_PREFIX))),
      "comment", text(properties.get(TableCatalog.PROP_COMMENT))))
    request
  }

  /** USING, otherwise STORED AS, otherwise Spark's default. */
  private def format(properties: Map[String, String]): String =
    properties.get(TableCatalog.PROP_PROVIDER)
      .orElse(properties.get(TableOperations.StoredAs))
      .getOrElse(SQLConf.get.defaultDataSourceName)
      .toLowerCase(Locale.ROOT)

  /** Properties only; every other change is refused before anything is sent. */
  def alter(ident: Identifier, changes: Seq[TableChange]): CatalogExtTable = {
    refuseMetadataTable(ident)
    changes.foreach {
      case change: TableChange.SetProperty if change.property() == TableCatalog.PROP_LOCATION =>
        throw unsupportedChange(ident, "ALTER TABLE ... SET LOCATION")
      case _: TableChange.SetProperty | _: TableChange.RemoveProperty =>
      case other => throw unsupportedChange(ident, s"ALTER TABLE with ${other.getClass.getSimpleName}")
    }
    val request = named(ident)
    request.set[JsonNode]("set",
      map(changes.collect { case change: TableChange.SetProperty => change.property() -> change.value() }))
    request.set[JsonNode]("remove",
      arr(changes.collect { case change: TableChange.RemoveProperty => text(change.property()) }))
    table(TableMetadata.fromJson(translating(ident)(client.call("tables/alter", request))))
  }

  def drop(ident: Identifier, purge: Boolean): Boolean = {
    refuseMetadataTable(ident)
    val request = named(ident)
    request.put("purge", purge)
    try ServiceException.translatingTo {
      case e if e.is("TABLE_NOT_FOUND") || e.is("NAMESPACE_NOT_FOUND") => new NoSuchTableException(ident)
    }(client.call("tables/drop", request)).field("dropped").asBoolean()
    catch { case _: NoSuchTableException => false }
  }

  private def table(metadata: TableMetadata): CatalogExtTable =
    new CatalogExtTable(catalogName, metadata, client, ReadOptions.virtualColumnsShown(SQLConf.get))

  private def split(ident: Identifier, schema: StructType, transforms: Seq[Transform]): (StructType, StructType) = {
    val keys = transforms.map {
      case IdentityTransform(reference) if reference.fieldNames().length == 1 => reference.fieldNames().head
      case other => throw ConnectorErrors.notSupported(
        s"PARTITIONED BY (${other.describe()}) of table $ident: a partition column is a column, never an expression " +
          "of one.")
    }
    val resolver = SQLConf.get.resolver
    val found = keys.map(key => schema.find(field => resolver(field.name, key)).get)
    (StructType(schema.filterNot(found.contains)), StructType(found))
  }

  private def named(ident: Identifier) =
    if (ident.namespace().length != 1) throw new NoSuchTableException(ident)
    else obj("namespace" -> text(ident.namespace().head), "name" -> text(ident.name()))

  private def translating[T](ident: Identifier)(body: => T): T = ServiceException.translatingTo {
    case e if e.is("TABLE_NOT_FOUND") => new NoSuchTableException(ident)
    case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(ident.namespace())
    case e if e.is("TABLE_ALREADY_EXISTS") => new TableAlreadyExistsException(ident)
  }(body)

  private def unsupportedChange(ident: Identifier, what: String): Throwable = ConnectorErrors.notSupported(
    s"This version of catalog-ext has no $what (table $catalogName.$ident): only SET and UNSET TBLPROPERTIES.")
}

object TableOperations {
  private val StoredAs = "hive.stored-as"

  /** Properties with which Spark says what the contract has fields for. */
  private val Reserved = Set(
    TableCatalog.PROP_LOCATION, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_COMMENT, TableCatalog.PROP_OWNER,
    TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_IS_MANAGED_LOCATION, StoredAs)
}
