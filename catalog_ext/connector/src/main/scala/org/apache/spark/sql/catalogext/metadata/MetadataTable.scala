package org.apache.spark.sql.catalogext.metadata

import java.time.ZoneId
import java.util
import java.util.Locale

import scala.collection.mutable.ArrayBuffer

import org.apache.arrow.vector.VectorSchemaRoot

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, TableMetadata, VirtualColumn}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, MetadataColumn, SupportsMetadataColumns, SupportsRead, Table,
  TableCapability}
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * What the index knows of a table, as a table: `sales.trips.files`. It is read anew by every query.
 *
 * `partitions` and `files` have the partition's values as a struct, and each of them as a column that `SELECT *`
 * leaves out; filters on either are the service's to answer.
 */
class MetadataTable(val catalogName: String, val of: TableMetadata, val client: ServiceClient, val what: String)
  extends Table with SupportsRead with SupportsMetadataColumns {

  private val byPartition = MetadataTable.ByPartition.contains(what)

  /** The partition columns, as readers see them. */
  val keys: StructType =
    StructType(of.partitionColumns.map(key => StructField(key.name, PartitionColumns.plain(key.dataType))))

  override def name(): String = s"$catalogName.${of.qualifiedName}.$what"
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  override val schema: StructType = {
    val columns = MetadataTable.Schemas(what)
    val values = Option.when(byPartition && keys.nonEmpty)(StructField(MetadataTable.Values, keys))
    StructType(columns.take(1) ++ values ++ columns.drop(1))
  }

  /** The partition columns that no column of this table hides. */
  val keyColumns: Seq[StructField] =
    if (byPartition) keys.filterNot(key => schema.fieldNames.exists(SQLConf.get.resolver(_, key.name))) else Nil

  override def metadataColumns(): Array[MetadataColumn] =
    keyColumns.map(key => VirtualColumn(key.name, key.dataType, null)).toArray[MetadataColumn]

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    if (byPartition) new MetadataScanBuilder(this, ZoneId.of(SQLConf.get.sessionLocalTimeZone)) else () => wholeScan

  /** One row a version, transaction or repair: vacuum bounds how many there are. */
  private def wholeScan: Scan = new LocalScan {
    override def readSchema(): StructType = schema
    override def description(): String = name()
    override lazy val rows: Array[InternalRow] = {
      val found = ArrayBuffer.empty[InternalRow]
      ServiceException.translating {
        client.stream("tables/metadata", request(Null))(input => ArrowRows.foreachBatch(input)(found ++= read(_)))
      }
      found.toArray
    }
  }

  def request(predicate: com.fasterxml.jackson.databind.JsonNode) =
    obj("table_id" -> long(of.tableId), "name" -> text(what), "predicate" -> predicate)

  private def read(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val vectors = schema.fieldNames.map(batch.getVector)
    (0 until batch.getRowCount).map(i => InternalRow.fromSeq(vectors.map(MetadataRows.value(_, i)).toSeq))
  }
}

object MetadataTable {
  val Values = "values"
  val ByPartition: Set[String] = Set("partitions", "files")

  /** What is known of a column of a file. */
  val ColumnStatistics: StructType = new StructType()
    .add("min", StringType).add("max", StringType).add("nulls", LongType)

  /** Columns as `tables/metadata` gives them, in its order. */
  private val Schemas: Map[String, StructType] = Map(
    "files" -> new StructType()
      .add("partition", StringType).add("path", StringType).add("size", LongType).add("modified_ms", TimestampType)
      .add("rows", LongType).add("version", LongType).add("statistics", MapType(StringType, ColumnStatistics)),
    "history" -> new StructType()
      .add("version", LongType).add("operation", StringType).add("committed_ms", TimestampType)
      .add("transaction", StringType).add("partitions_added", LongType).add("partitions_removed", LongType)
      .add("partitions_changed", LongType).add("files_added", LongType).add("files_removed", LongType)
      .add("rows", LongType).add("bytes", LongType).add("summary", StringType),
    "partitions" -> new StructType()
      .add("partition", StringType).add("location", StringType).add("files", LongType).add("bytes", LongType)
      .add("rows", LongType).add("created_ms", TimestampType).add("state", StringType),
    "repairs" -> new StructType()
      .add("began_ms", TimestampType).add("duration_ms", LongType).add("mode", StringType).add("where", StringType)
      .add("strict", BooleanType).add("added", LongType).add("dropped", LongType).add("changed", LongType)
      .add("skipped", LongType).add("version_before", LongType).add("version_after", LongType)
      .add("owner", StringType).add("error", StringType),
    "transactions" -> new StructType()
      .add("transaction", StringType).add("operation", StringType).add("state", StringType).add("owner", StringType)
      .add("began_ms", TimestampType).add("expires_ms", TimestampType).add("ended_ms", TimestampType)
      .add("base_version", LongType).add("version", LongType).add("app_id", StringType).add("app_version", LongType)
      .add("files", LongType).add("error", StringType))

  /** The table and the name of its metadata table, where `ident` is of that form. Real namespaces have one level. */
  def named(ident: Identifier): Option[(Identifier, String)] =
    below(ident).filter { case (_, name) => Schemas.contains(name) }

  /** As `named`, whatever the last part is. */
  def below(ident: Identifier): Option[(Identifier, String)] = Option.when(ident.namespace().length == 2) {
    (Identifier.of(ident.namespace().take(1), ident.namespace()(1)), ident.name().toLowerCase(Locale.ROOT))
  }

  /** The whole name where `ident` leaves out `namespace`: none is meant where one has a table of that name. */
  def completed(namespace: Array[String], ident: Identifier): Option[Identifier] =
    Option.when(namespace.length == 1 && ident.namespace().length == 1) {
      Identifier.of(namespace ++ ident.namespace(), ident.name())
    }

  def unknown(table: String, name: String): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.MetadataTableNotFound,
    s"Table $table has no metadata table '$name'. There are: ${Schemas.keys.toSeq.sorted.mkString(", ")}.",
    Map("table" -> table, "name" -> name))

  def readOnly(table: String): Throwable = ConnectorErrors.notSupported(
    s"$table is a metadata table, which only shows what the index knows: nothing writes, changes or drops it.")
}
