package org.apache.spark.sql.catalogext.views

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkRuntimeException
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.catalog.{NamespaceOperations, TableDefinitions, TableMetadata}
import org.apache.spark.sql.catalogext.release.Views
import org.apache.spark.sql.catalogext.release.Views.View
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchViewException, SchemaBinding,
  SchemaUnsupported, ViewAlreadyExistsException}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.types.StructType

/**
 * A view of the service.
 *
 * @param metadata its definition; the partition columns are its last columns
 * @param automatic whether its partitions are derived from those of its tables
 */
class CatalogExtView(
    val catalogName: String,
    val metadata: TableMetadata,
    val client: ServiceClient,
    val automatic: Boolean,
    builder: Views.Builder)
  extends View(builder) {

  def partitioned: Boolean = metadata.partitionColumns.nonEmpty

  def name: String = s"$catalogName.${metadata.qualifiedName}"
}

object CatalogExtView {
  /** The property that passes the partition columns between Spark and the catalog, as comma-separated names. */
  val PartitionedOn = "partitioned-on"

  /**
   * Spark stores SchemaUnsupported if its session has no schema modes. It behaves like BINDING, and has no SQL syntax.
   */
  def schemaMode(stored: String): String = if (stored == SchemaUnsupported.toString) SchemaBinding.toString else stored

  def fromJson(catalogName: String, client: ServiceClient, node: JsonNode): CatalogExtView = {
    val metadata = TableMetadata.fromJson(node)
    val query = node.field("view")
    val on = metadata.partitionColumns.fieldNames
    val properties = metadata.properties ++ Option.when(on.nonEmpty)(PartitionedOn -> on.mkString(","))
    val builder = Views.builder()
    builder.withSchema(StructType(metadata.columns ++ metadata.partitionColumns))
    builder.withProperties(properties.asJava)
    metadata.comment.foreach(builder.withComment)
    metadata.owner.filter(_.nonEmpty).foreach(builder.withOwner)
    builder
      .withQueryText(query.string("text"))
      .withCurrentCatalog(query.string("catalog"))
      .withCurrentNamespace(query.items("current_namespace").map(_.asText()).toArray)
      .withSqlConfigs(CapturedSettings.others(query.stringMap("configuration"), prefix = "").asJava)
      .withSchemaMode(schemaMode(query.string("schema_mode")))
      .withQueryColumnNames(query.items("query_columns").map(_.asText()).toArray)
    new CatalogExtView(catalogName, metadata, client, query.field("automatic").asBoolean(), builder)
  }
}

/** Spark's operations on views as calls of the service. */
class ViewOperations(catalogName: String, client: ServiceClient, namespaces: NamespaceOperations) {
  import ViewOperations._

  def list(namespace: Array[String]): Array[Identifier] = {
    val name = namespaces.single(namespace)
    ServiceException.translatingTo {
      case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(namespace)
    }(client.call("views/list", obj("namespace" -> text(name))))
      .items("views").map(node => Identifier.of(namespace, node.asText())).toArray
  }

  /**
   * Creates or replaces a view. Finding its tables requires another analysis of its query, so they are sent only if the
   * service asks for them.
   *
   * @param kind `create`, `create_or_replace` or `replace`
   */
  def put(ident: Identifier, view: View, kind: String): View = {
    val properties = view.properties.asScala.toMap
    val on = properties.get(CatalogExtView.PartitionedOn).toSeq.flatMap(_.split(',')).map(_.trim).filter(_.nonEmpty)
    val request = named(ident)
    request.setAll[JsonNode](java.util.Map.ofEntries(
      java.util.Map.entry("kind", text(kind)),
      java.util.Map.entry("text", text(view.queryText)),
      java.util.Map.entry("catalog", text(Option(view.currentCatalog).getOrElse(""))),
      java.util.Map.entry("current_namespace", texts(view.currentNamespace)),
      java.util.Map.entry("configuration", map(CapturedSettings.others(view.sqlConfigs.asScala.toMap, ""))),
      java.util.Map.entry("schema_mode", text(CatalogExtView.schemaMode(
        Option(view.schemaMode).getOrElse(SchemaBinding.toString)))),
      java.util.Map.entry("query_columns", texts(view.queryColumnNames)),
      java.util.Map.entry("tables", Null),
      java.util.Map.entry("own_catalog", text(catalogName)),
      java.util.Map.entry("columns", arr(view.schema.map(TableMetadata.columnJson))),
      java.util.Map.entry("partition_columns", arr(on.map(text(_)))),
      java.util.Map.entry("properties", map(properties -- Reserved)),
      java.util.Map.entry("comment", text(properties.get(TableCatalog.PROP_COMMENT))),
      java.util.Map.entry("owner", text(properties.get(TableCatalog.PROP_OWNER)))))
    val answer = translating(ident)(client.call("views/put", request, limited = false))
    if (!answer.path("needs_tables").asBoolean()) read(answer)
    else {
      request.set[JsonNode]("tables", arr(ViewDependencies.tablesOf(catalogName, view).map(text(_))))
      read(translating(ident)(client.call("views/put", request, limited = false)))
    }
  }

  def drop(ident: Identifier): Boolean = try {
    translating(ident)(client.call("views/drop", named(ident), limited = false)).field("dropped").asBoolean()
  } catch {
    case _: NoSuchViewException | _: NoSuchNamespaceException => false
  }

  /** Renames a view. The new name may lack its namespace, or start with the catalog's name. */
  def rename(from: Identifier, to: Identifier): Unit = {
    val namespace = to.namespace() match {
      case Array() => from.namespace().head
      case Array(one) => one
      case Array(catalog, one) if catalog.equalsIgnoreCase(catalogName) => one
      case other => throw new NoSuchNamespaceException(other)
    }
    val request = named(from)
    request.put("new_namespace", namespace)
    request.put("new_name", to.name())
    ServiceException.translatingTo {
      case e if e.is("VIEW_NOT_FOUND") => new NoSuchViewException(from)
      case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(to.namespace())
      case e if e.is("VIEW_ALREADY_EXISTS") || e.is("TABLE_ALREADY_EXISTS") => new ViewAlreadyExistsException(to)
    }(client.call("views/rename", request, limited = false))
  }

  private def read(node: JsonNode): View = CatalogExtView.fromJson(catalogName, client, node)

  private def named(ident: Identifier) =
    if (ident.namespace().length != 1) throw new NoSuchViewException(ident)
    else obj("namespace" -> text(ident.namespace().head), "name" -> text(ident.name()))

  private def texts(values: Array[String]): JsonNode = arr(Option(values).toSeq.flatten.map(text(_)))

  private def translating[T](ident: Identifier)(body: => T): T = ServiceException.translatingTo {
    case e if e.is("VIEW_NOT_FOUND") => new NoSuchViewException(ident)
    case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(ident.namespace())
    // This error also stands for a table of the name: Spark asks afterwards whether a table or a view exists.
    case e if e.is("VIEW_ALREADY_EXISTS") || e.is("TABLE_ALREADY_EXISTS") => new ViewAlreadyExistsException(ident)
  }(body)
}

object ViewOperations {
  /** Properties that Spark adds to a view's own ones, and whose values have their own fields in the requests. */
  private val Reserved = Set(TableCatalog.PROP_COMMENT, TableCatalog.PROP_OWNER, TableDefinitions.TableType,
    TableCatalog.PROP_PROVIDER, CatalogExtView.PartitionedOn)
}

/** Errors of statements on views that are detected before the service is asked. */
object ViewErrors {
  def notOfViews(view: CatalogExtView, command: String): AnalysisException = ConnectorErrors.analysis(
    ConnectorErrors.ViewPartitionCommand,
    s"ALTER VIEW ${view.name} $command: partitions of a view have no files, so that they can be added and dropped only.",
    Map("view" -> view.name, "command" -> command))

  def elsewhere(catalog: String): AnalysisException = ConnectorErrors.notSupported(
    s"The catalog $catalog keeps no partitioned views. Create it in a catalog of the class CatalogExtCatalog.")

  /**
   * The error for a function that Spark has stored, and that could not be stored again without the settings of
   * catalog-ext.
   */
  def functionNotStored(name: String, isKept: Boolean, cause: Throwable): SparkRuntimeException = {
    val outcome =
      if (isKept) "It is there with them: Sparks without catalog-ext cannot call it."
      else "It was dropped for that, and could not be put back."
    ConnectorErrors.runtime(ConnectorErrors.MetastoreUnavailable,
      s"The metastore did not store the function $name without the settings of catalog-ext: ${Option(cause.getMessage).getOrElse(cause.toString).stripSuffix(".")}. " +
        s"$outcome Run CREATE OR REPLACE FUNCTION again.",
      Map("function" -> name), Some(cause))
  }
}
