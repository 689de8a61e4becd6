package org.apache.spark.sql.catalogext

import java.util
import java.util.Locale

import scala.collection.mutable.ArrayBuffer

import org.apache.arrow.vector.{BigIntVector, FieldVector, TimeStampMilliTZVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder}
import org.apache.spark.sql.types.{LongType, StringType, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** What the index knows of a table, as a table: `sales.trips.history`. It is read anew by every query. */
class MetadataTable(catalogName: String, of: TableMetadata, client: ServiceClient, what: String)
  extends Table with SupportsRead {

  override def name(): String = s"$catalogName.${of.qualifiedName}.$what"
  override def schema(): StructType = MetadataTable.Schemas(what)
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => scan

  private def scan: Scan = new LocalScan {
    override def readSchema(): StructType = schema()
    override def description(): String = name()
    override lazy val rows: Array[InternalRow] = {
      val found = ArrayBuffer.empty[InternalRow]
      val request = obj("table_id" -> long(of.tableId), "name" -> text(what))
      ServiceException.translating {
        client.stream("tables/metadata", request)(input => ArrowRows.foreachBatch(input)(found ++= read(_)))
      }
      found.toArray
    }
  }

  private def read(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val vectors = schema().fieldNames.map(batch.getVector)
    (0 until batch.getRowCount).map(i => InternalRow.fromSeq(vectors.map(value(_, i)).toSeq))
  }

  private def value(vector: FieldVector, i: Int): Any = if (vector.isNull(i)) null else vector match {
    case numbers: BigIntVector => numbers.get(i)
    case times: TimeStampMilliTZVector => times.get(i) * 1000
    case texts: VarCharVector => UTF8String.fromBytes(texts.get(i))
    case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"The column ${other.getName} of ${name()} came as ${other.getField.getType}: the service and the connector are " +
        "of different releases.")
  }
}

object MetadataTable {
  /** Columns as `tables/metadata` gives them, in its order. */
  private val Schemas: Map[String, StructType] = Map(
    "history" -> new StructType()
      .add("version", LongType).add("operation", StringType).add("committed_ms", TimestampType)
      .add("transaction", StringType).add("partitions_added", LongType).add("partitions_removed", LongType)
      .add("partitions_changed", LongType).add("files_added", LongType).add("files_removed", LongType)
      .add("rows", LongType).add("bytes", LongType).add("summary", StringType),
    "partitions" -> new StructType()
      .add("partition", StringType).add("location", StringType).add("files", LongType).add("bytes", LongType)
      .add("rows", LongType).add("state", StringType),
    "transactions" -> new StructType()
      .add("transaction", StringType).add("operation", StringType).add("state", StringType).add("owner", StringType)
      .add("began_ms", TimestampType).add("expires_ms", TimestampType).add("ended_ms", TimestampType)
      .add("base_version", LongType).add("version", LongType).add("app_id", StringType).add("app_version", LongType)
      .add("files", LongType).add("error", StringType))

  /** The table and the name of its metadata table, where `ident` is of that form. Real namespaces have one level. */
  def named(ident: Identifier): Option[(Identifier, String)] = {
    val name = ident.name().toLowerCase(Locale.ROOT)
    Option.when(ident.namespace().length == 2 && Schemas.contains(name)) {
      (Identifier.of(ident.namespace().take(1), ident.namespace()(1)), name)
    }
  }

  /** The same where `ident` leaves out `namespace`: no namespace is meant where one has a table of that name. */
  def namedFrom(namespace: Array[String], ident: Identifier): Option[(Identifier, String)] =
    if (namespace.length == 1 && ident.namespace().length == 1) {
      named(Identifier.of(namespace ++ ident.namespace(), ident.name()))
    } else None
}
