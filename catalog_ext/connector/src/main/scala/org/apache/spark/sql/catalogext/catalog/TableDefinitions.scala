package org.apache.spark.sql.catalogext.catalog

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Identifier, Table, TableCatalog}
import org.apache.spark.sql.connector.expressions.{ClusterByTransform, IdentityTransform, Transform}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Converts CREATE TABLE, with Spark's and Hive's clauses, to the fields of `tables/create`. */
class TableDefinitions(catalogName: String) {

  def request(ident: Identifier, info: TableInfo): ObjectNode =
    request(ident, info.schema(), info.partitions.toSeq, info.properties.asScala.toMap, None)

  /** The definition for CREATE TABLE ... LIKE: the columns, keys, format and options of `source`, without its rows. */
  def like(ident: Identifier, info: TableInfo, source: Table): ObjectNode = {
    val own = info.properties.asScala.toMap
    val inherited = source.properties().asScala.toMap.filter { case (key, _) =>
      key == TableCatalog.PROP_PROVIDER || key.startsWith(TableCatalog.OPTION_PREFIX) ||
        TableDefinitions.Storage.contains(key)
    }
    // If the statement names a format of its own, the source's options belong to another format, and are not copied.
    val properties = if (saysFormat(own)) own else inherited ++ own
    source match {
      case ours: CatalogExtTable =>
        val table = ours.metadata
        val mode = Option.unless(table.declared || own.contains(CatalogOptions.PartitionColumns))(
          CatalogOptions.PartitionColumns -> "virtual")
        val schema = StructType((table.columns ++ table.partitionColumns).map(field =>
          field.copy(nullable = !table.notNull.contains(field.name))))
        request(ident, schema, Nil, properties ++ mode, Some(table.partitionColumns.fieldNames.toSeq))
      case other =>
        val schema = CatalogV2Util.v2ColumnsToStructType(other.columns())
        request(ident, schema, other.partitioning().toSeq, properties, None)
    }
  }

  private def request(
      ident: Identifier,
      schema: StructType,
      transforms: Seq[Transform],
      given: Map[String, String],
      keyNames: Option[Seq[String]]): ObjectNode = {
    val (columns, keys) = keyNames.fold(split(ident, schema, transforms)) { names =>
      // Separate keys from data columns by position, because a data column may have the name of a key.
      (StructType(schema.dropRight(names.length)), StructType(schema.takeRight(names.length)))
    }
    val location = given.get(TableCatalog.PROP_LOCATION)
    val external = location.isDefined || given.get(TableCatalog.PROP_EXTERNAL).contains("true")
    val (prefixed, others) = given.partition { case (key, _) => key.startsWith(TableCatalog.OPTION_PREFIX) }
    val options = prefixed.map { case (key, value) => key.stripPrefix(TableCatalog.OPTION_PREFIX) -> value }
    // Spark passes every option twice, with and without a prefix.
    val properties = others.filterNot { case (key, value) =>
      TableDefinitions.Reserved.contains(key) || TableDefinitions.Storage.contains(key) ||
        options.get(key).contains(value)
    }
    val request = obj("namespace" -> text(ident.namespace().head), "name" -> text(ident.name()))
    request.setAll[JsonNode](java.util.Map.of(
      "table_type", text(if (external) "EXTERNAL" else "MANAGED"),
      "format", text(given.get(TableCatalog.PROP_PROVIDER).filterNot(_.equalsIgnoreCase("hive"))),
      "storage", storage(given),
      "default_format", text(SQLConf.get.defaultDataSourceName),
      "location", text(location),
      "columns", arr(columns.map(TableMetadata.columnJson)),
      "partition_columns", arr(keys.map(TableMetadata.columnJson)),
      "options", map(options),
      "properties", map(properties),
      "comment", text(given.get(TableCatalog.PROP_COMMENT))))
    request
  }

  /**
   * The fields of the request with the formats and classes of Hive's clauses (STORED AS, ROW FORMAT), as the statement
   * spells them; null without such clauses.
   */
  private def storage(given: Map[String, String]): JsonNode =
    if (!given.keys.exists(TableDefinitions.Storage.contains)) Null
    else obj(TableDefinitions.Storage.toSeq.map { case (key, field) => field -> text(given.get(key)) }: _*)

  private def saysFormat(properties: Map[String, String]): Boolean =
    properties.contains(TableCatalog.PROP_PROVIDER) || properties.keys.exists { key =>
      TableDefinitions.Storage.contains(key) || key.equalsIgnoreCase(TableDefinitions.FileFormat)
    }

  /** The data columns and the partition columns, in the order of PARTITIONED BY. */
  def split(ident: Identifier, schema: StructType, transforms: Seq[Transform]): (StructType, StructType) = {
    // CLUSTER BY describes the layout of Spark's own files. Spark's file sources accept the clause and ignore it; so
    // does this connector.
    val keys = transforms.filterNot(_.isInstanceOf[ClusterByTransform]).map {
      case IdentityTransform(reference) if reference.fieldNames().length == 1 => reference.fieldNames().head
      case other => throw ConnectorErrors.notSupported(
        s"PARTITIONED BY (${other.describe()}) of table $ident: a partition column is a column, never an expression " +
          "of one, and tables have no buckets.")
    }
    val resolver = SQLConf.get.resolver
    val found = keys.map(key => schema.find(field => resolver(field.name, key)).get)
    (StructType(schema.filterNot(found.contains)), StructType(found))
  }
}

object TableDefinitions {
  /** Doris' property for the format. */
  private val FileFormat = "file_format"

  /** The properties by which Spark passes Hive's clauses on, and the corresponding fields of the contract. */
  private val Storage = Map(
    "hive.stored-as" -> "stored_as", "hive.serde" -> "serde", "hive.input-format" -> "input_format",
    "hive.output-format" -> "output_format")

  /** A property for which Spark 4.0 has no constant. */
  val TableType = "table_type"

  /**
   * Properties that Spark adds to a statement's own ones, and whose values have their own fields in `tables/create`.
   */
  private val Reserved = Set(
    TableCatalog.PROP_LOCATION, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_COMMENT, TableCatalog.PROP_OWNER,
    TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_IS_MANAGED_LOCATION, TableType)
}
