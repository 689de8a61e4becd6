package org.apache.spark.sql.catalogext.metadata

import java.util
import java.util.Locale

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.VectorSchemaRoot

import org.apache.spark.sql.catalogext.catalog.{KeyZone, PartitionColumns, TableMetadata, VirtualColumn}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.connector.catalog.{Identifier, MetadataColumn, SupportsMetadataColumns, SupportsRead, Table,
  TableCapability}
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Metadata of a table as a table: `sales.trips.files`. Every query reads the present state, unless it names a version
 * (`of.pinned`). The service defines its columns.
 *
 * `partitions` and `files` have the partition's values as a struct, and each value also as a hidden column, which
 * `SELECT *` omits. The service evaluates filters on both.
 *
 * @param described the field `metadata` of `tables/load`
 */
class MetadataTable(
    val catalogName: String,
    val of: TableMetadata,
    val client: ServiceClient,
    val what: String,
    described: JsonNode)
  extends Table with SupportsRead with SupportsMetadataColumns {

  private val takesPredicate = described.field("predicate").asBoolean()

  /** The partition columns, as readers see them. */
  val keys: StructType =
    StructType(of.partitionColumns.map(key => StructField(key.name, PartitionColumns.plain(key.dataType))))

  override val schema: StructType = TableMetadata.schema(described.items("columns"))

  /** The name of the struct column with the partition's values. */
  val values: Option[String] = described.stringOption("values")
  val locations: Set[String] = described.items("locations").map(_.asText()).toSet
  val filePaths: Set[String] = described.items("file_paths").map(_.asText()).toSet

  /** The numeric columns, which the service can compare and aggregate. */
  val numbers: Set[String] = described.items("numbers").map(_.asText()).toSet

  override def name(): String = s"$catalogName.${of.qualifiedName}.$what"
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  /** The partition columns whose names no column of the metadata table has. */
  val keyColumns: Seq[StructField] =
    if (takesPredicate) keys.filterNot(key => schema.fieldNames.exists(SQLConf.get.resolver(_, key.name))) else Nil

  override def metadataColumns(): Array[MetadataColumn] =
    keyColumns.map(key => VirtualColumn(key.name, key.dataType, null)).toArray[MetadataColumn]

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    if (takesPredicate) new MetadataScanBuilder(this, DateTimeUtils.getZoneId(KeyZone.of(of, SQLConf.get))) else () => wholeScan

  /**
   * A scan for a metadata table without partitions or files: one row for each version, transaction or repair. Vacuum
   * limits their number, so the rows are fetched at once, without tasks.
   */
  private def wholeScan: Scan = new LocalScan {
    override def readSchema(): StructType = schema
    override def description(): String = name()
    override lazy val rows: Array[InternalRow] = ServiceException.translating {
      client.stream("tables/metadata", request(None, None)) { input =>
        val found = ArrayBuffer.empty[InternalRow]
        ArrowRows.foreachBatch(input)(found ++= read(_))
        found.toArray
      }
    }
  }

  /** The request for rows, with predicates over partition columns and over `numbers`. */
  def request(
      predicate: Option[JsonNode],
      numbers: Option[JsonNode],
      columns: JsonNode = Null,
      groups: JsonNode = Null): JsonNode = obj(
    "table_id" -> long(of.tableId), "name" -> text(what), "predicate" -> predicate.getOrElse(Null),
    "numbers" -> numbers.getOrElse(Null), "columns" -> columns, "groups" -> groups,
    "version" -> (if (of.pinned) long(of.version) else Null))

  private def read(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val vectors = schema.fieldNames.map(batch.getVector)
    (0 until batch.getRowCount).map(i => InternalRow.fromSeq(vectors.map(MetadataRows.value(_, i)).toSeq))
  }
}

object MetadataTable {
  /**
   * The metadata table `name` of a `tables/load` answer. Raises an error that lists all metadata tables if there is no
   * such one.
   *
   * @param pinned whether the query names a version
   */
  def fromJson(
      catalogName: String, client: ServiceClient, name: String, node: JsonNode, pinned: Boolean): MetadataTable = {
    val of = TableMetadata.fromJson(node).copy(pinned = pinned)
    if (!isIn(node)) {
      val table = s"$catalogName.${of.qualifiedName}"
      throw ConnectorErrors.analysis(
        ConnectorErrors.MetadataTableNotFound,
        s"Table $table has no metadata table '$name'. There are: " +
          s"${node.items("metadata_tables").map(_.asText()).mkString(", ")}.", Map("table" -> table, "name" -> name))
    }
    new MetadataTable(catalogName, of, client, name, node.field("metadata"))
  }

  def isIn(node: JsonNode): Boolean = !node.field("metadata").isNull

  /** The table and the name of its metadata table, if `ident` has two levels. Real namespaces have one level. */
  def below(ident: Identifier): Option[(Identifier, String)] = Option.when(ident.namespace().length == 2) {
    (Identifier.of(ident.namespace().take(1), ident.namespace()(1)), ident.name().toLowerCase(Locale.ROOT))
  }

  /** The complete name of a metadata table (`trips.history` after USE), if `ident` lacks the namespace. */
  def completed(namespace: Array[String], ident: Identifier): Option[Identifier] =
    Option.when(namespace.length == 1 && ident.namespace().length == 1) {
      Identifier.of(namespace ++ ident.namespace(), ident.name())
    }

  def readOnly(table: String): Throwable = ConnectorErrors.notSupported(
    s"$table is a metadata table, which only shows contents of the index: it cannot be written, changed or dropped.")
}
