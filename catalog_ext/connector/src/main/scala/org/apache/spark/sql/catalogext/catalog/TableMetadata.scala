package org.apache.spark.sql.catalogext.catalog

import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.parser.SqlText
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.catalyst.util.QuotingUtils.{quoteIdentifier, quoteIfNeeded}
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StringType, StructField, StructType}

/**
 * The answer of `tables/load`: a table at one version.
 *
 * @param settings the settings of reads and writes that have no options, for `ResolvedSettings`; null for a view
 * @param statistics of columns at this version, by column, under Spark's names
 * @param statisticsAfter by column name, the first version whose files may have statistics of the present column of
 *                        that name; older files had another column of the name
 * @param pinned whether a query names this version (VERSION AS OF, TIMESTAMP AS OF). Such a query is not compared with
 *               the store, and records nothing about the files
 * @param descriptors of the partitions that have another format, other options or other columns than their table
 */
case class TableMetadata(
    tableId: Long,
    namespace: String,
    name: String,
    tableType: String,
    format: String,
    location: String,
    columns: StructType,
    partitionColumns: StructType,
    notNull: Set[String],
    declared: Boolean,
    options: Map[String, String],
    properties: Map[String, String],
    comment: Option[String],
    owner: Option[String],
    version: Long,
    totals: TableTotals,
    settings: JsonNode,
    statistics: Map[String, Map[String, String]] = Map.empty,
    descriptors: Seq[PartitionDescriptor] = Nil,
    statisticsAfter: Map[String, Long] = Map.empty,
    pinned: Boolean = false) {

  /** The name in SQL, without the catalog. A path has no namespace. */
  def qualifiedName: String = if (namespace.isEmpty) quoteIdentifier(name) else s"$namespace.$name"

  /**
   * The properties for TBLPROPERTIES in a CREATE TABLE statement: without the comment, and without the property with
   * the columns of PARTITIONED BY.
   */
  def shownProperties: Map[String, String] = {
    val own = properties - TableCatalog.PROP_COMMENT
    if (declared) own - CatalogOptions.PartitionColumns
    else if (partitionColumns.isEmpty) own
    else own + (CatalogOptions.PartitionColumns -> "virtual")
  }

  /** The columns of a row to be written: data columns, then partition columns. All are nullable. */
  def writeSchema: StructType = StructType(
    (columns ++ partitionColumns).map(field => field.copy(nullable = !notNull.contains(field.name))))
}

/** Sums over all files of a version. `rows` is None if the row count of any file is unknown. */
case class TableTotals(partitions: Long, files: Long, bytes: Long, rows: Option[Long])

/**
 * Format, options and columns of partitions that differ from their table; `number` identifies the descriptor in the
 * service's contract.
 */
case class PartitionDescriptor(number: Long, format: String, options: Map[String, String], columns: StructType)

object TableMetadata {
  def fromJson(node: JsonNode): TableMetadata = {
    val totals = node.field("totals")
    val of = s" of ${node.string("namespace")}.${node.string("name")}"
    TableMetadata(
      tableId = node.field("table_id").asLong(),
      namespace = node.string("namespace"),
      name = node.string("name"),
      tableType = node.string("table_type"),
      format = node.string("format"),
      location = node.string("location"),
      columns = schema(node.items("columns"), of),
      partitionColumns = schema(node.items("partition_columns"), of),
      notNull = (node.items("columns") ++ node.items("partition_columns"))
        .filterNot(_.field("nullable").asBoolean()).map(_.string("name")).toSet,
      declared = node.string("partition_mode") == "declared",
      options = node.stringMap("options"),
      properties = node.stringMap("properties"),
      // The comment is among the properties: in Hive, COMMENT ON TABLE sets a table parameter.
      comment = node.stringMap("properties").get("comment").orElse(node.stringOption("comment")),
      owner = node.stringOption("owner"),
      version = node.field("version").asLong(),
      totals = TableTotals(
        totals.field("partitions").asLong(),
        totals.field("files").asLong(),
        totals.field("bytes").asLong(),
        totals.longOption("rows")),
      settings = Option(node.get("settings")).getOrElse(Null),
      statistics = node.field("statistics").properties().asScala.map(_.getKey)
        .map(column => column -> node.field("statistics").stringMap(column)).toMap,
      // The service omits the field if no partition has a descriptor.
      descriptors = if (node.has("descriptors")) node.items("descriptors").map(descriptor(_, of)) else Nil,
      statisticsAfter = (for {
        column <- node.items("columns")
        version <- column.longOption("statistics_after")
      } yield column.string("name") -> version).toMap)
  }

  private def descriptor(node: JsonNode, of: String): PartitionDescriptor = PartitionDescriptor(
    node.field("number").asLong(), node.string("format"), node.stringMap("options"), schema(node.items("columns"), of))

  // A conf with default settings, so that TIMESTAMP in the contract always means the local time zone, whatever
  // `spark.sql.timestampType` says in the session.
  private lazy val ContractConf = new SQLConf

  /**
   * The columns in a JSON array of the contract as a schema.
   *
   * @param of the end of the column's name in an error message, such as the table
   */
  def schema(columns: Seq[JsonNode], of: String = ""): StructType = StructType(columns.map { column =>
    val field = StructField(column.string("name"), dataType(column, of))
    val commented = column.stringOption("comment").fold(field)(field.withComment)
    val defaulted = column.stringOption("default").fold(commented)(commented.withCurrentDefaultValue)
    // The default that Spark's readers use for files that are older than the column.
    column.stringOption("existing_default").fold(defaulted)(defaulted.withExistenceDefaultValue)
  })

  private def dataType(column: JsonNode, of: String): DataType = {
    val text = column.string("type")
    try SQLConf.withExistingConf(ContractConf)(CatalystSqlParser.parseDataType(text)) catch {
      // TIME is the only type of the index that some Spark releases lack: a newer Spark has created the table.
      case _: ParseException if Time.findFirstIn(text).isDefined =>
        throw ConnectorErrors.needsSpark(s"type ${text.toUpperCase(Locale.ROOT)} (column '${column.string("name")}'$of)", "4.1")
    }
  }

  private lazy val Time = """\btime\b""".r

  /** The type in the contract's syntax. Spark's own text omits quotes around names, NOT NULL and comments. */
  def typeText(dataType: DataType): String = dataType match {
    case struct: StructType => struct.map { field =>
      val notNull = if (field.nullable) "" else " not null"
      val comment = field.getComment().fold("")(text => s" comment ${SqlText.literal(text)}")
      s"${quoteIfNeeded(field.name)}:${typeText(field.dataType)}$notNull$comment"
    }.mkString("struct<", ",", ">")
    case array: ArrayType => s"array<${typeText(array.elementType)}>"
    case map: MapType => s"map<${typeText(map.keyType)},${typeText(map.valueType)}>"
    // Also `string collate UTF8_BINARY`, which equals the plain type but keeps its spelling in `catalogString`.
    case StringType => "string"
    case other => other.catalogString
  }

  def columnJson(field: StructField): JsonNode = {
    val column = obj(
      "name" -> text(field.name),
      "type" -> text(typeText(field.dataType)),
      "nullable" -> bool(field.nullable),
      "comment" -> text(field.getComment()))
    field.getCurrentDefaultValue().foreach(column.put("default", _))
    column
  }
}
