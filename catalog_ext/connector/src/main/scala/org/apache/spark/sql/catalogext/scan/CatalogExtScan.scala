package org.apache.spark.sql.catalogext.scan

import java.util.OptionalLong

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, ResolvedSettings}
import org.apache.spark.sql.catalogext.commands.ColumnStatistics
import org.apache.spark.sql.catalogext.stream.CatalogExtMicroBatchStream
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.connector.expressions.{FieldReference, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.Scan.ColumnarSupportMode
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, FileScan}
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * One scan of a table: Spark's file scan, with the files from the index, statistics from the index, filters that a
 * join finds while running, and the `_metadata` column.
 *
 * @param strict the setting that asks for a predicate on a partition column
 */
class CatalogExtScan(
    val inner: FileScan,
    val index: PlannedFileIndex,
    val fileMetadata: Option[StructType],
    strict: Option[String])
  extends Scan with SupportsReportStatistics with SupportsRuntimeV2Filtering with SupportsMetadata {

  private def tableName = s"${index.catalogName}.${index.table.qualifiedName}"

  // Spark calls filter and then toBatch on one thread. A plan may hold this scan twice with only one of the two
  // filtered, so that the filter goes to the next toBatch of that thread and to no other.
  private val pending = new ThreadLocal[Seq[Expression]]

  override def readSchema(): StructType =
    StructType(inner.readSchema() ++ fileMetadata.map(StructField(FileFormat.METADATA_NAME, _, nullable = false)))

  override def filterAttributes(): Array[NamedReference] =
    inner.readPartitionSchema.fieldNames.map(name => FieldReference(Seq(name)))

  override def filter(predicates: Array[Predicate]): Unit =
    pending.set(PartitionFilter.fromRuntime(index.partitionSchema, predicates.toSeq))

  override def toBatch: Batch = {
    val filters = Option(pending.get()).getOrElse(Nil)
    pending.remove()
    strict.foreach(StrictMode.check(tableName, strictKeys, inner.partitionFilters, _))
    new CatalogExtBatch(this, filters)
  }

  /** The partition columns that a query of this session can name. */
  private def strictKeys: Seq[String] = {
    val conf = inner.sparkSession.sessionState.conf
    val named = index.table.declared || ResolvedSettings.virtualColumnsShown(index.client, index.catalogName, index.table, conf)
    if (named) PartitionColumns.visible(index.table, conf.resolver).map(_.name) else Nil
  }

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
    new CatalogExtMicroBatchStream(inner.sparkSession, index.client, index, checkpointLocation)

  /** Known without the files, so that planning need not list before a join's filter is there. */
  override lazy val columnarSupportMode: ColumnarSupportMode =
    if (readerFactory.supportColumnarReads(null)) ColumnarSupportMode.SUPPORTED else ColumnarSupportMode.UNSUPPORTED

  def readerFactory: PartitionReaderFactory = {
    val files = inner.createReaderFactory().asInstanceOf[FilePartitionReaderFactory]
    val withMetadata = fileMetadata.fold(files)(new FileMetadataReaderFactory(files, _, index.options))
    new RegisteredFileReaderFactory(withMetadata, index.catalogName, index.table.qualifiedName, index.isRegistered)
  }

  private type Columns = java.util.Map[NamedReference, colstats.ColumnStatistics]
  private lazy val columnStatistics: Columns = ColumnStatistics.of(index.table)

  override def estimateStatistics(): Statistics = {
    val (bytes, rows) = index.totals
    val whole = math.max(inner.dataSchema.defaultSize + index.keys.defaultSize, 1)
    val read = readSchema().defaultSize
    val factor = inner.sparkSession.sessionState.conf.fileCompressionFactor
    new Statistics {
      override def sizeInBytes(): OptionalLong = OptionalLong.of((factor * bytes / whole * read).toLong)
      override def numRows(): OptionalLong = rows.fold(OptionalLong.empty())(OptionalLong.of)
      override def columnStats(): Columns = columnStatistics
    }
  }

  // Set when a batch of this scan has been planned, which comes before Spark asks.
  @volatile private[catalogext] var choice: Option[ScanChoice] = None

  override def supportedCustomMetrics(): Array[CustomMetric] = ScanChoice.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] = choice.fold(Array.empty[CustomTaskMetric])(_.metrics)

  override def description(): String = {
    val chosen = index.description(choice).toSeq.sorted.map { case (name, value) => s"$name: $value" }
    s"$tableName ${inner.description()} ${chosen.mkString(", ")}"
  }

  override def getMetaData(): Map[String, String] =
    inner.getMetaData() ++ index.description(choice)

  override def equals(other: Any): Boolean = other match {
    case that: CatalogExtScan => inner == that.inner && fileMetadata == that.fileMetadata
    case _ => false
  }

  override def hashCode(): Int = inner.hashCode()
}

/** The partitions of a scan, planned once; `runtime` are the filters that a join found. */
class CatalogExtBatch(val scan: CatalogExtScan, val runtime: Seq[Expression]) extends Batch {
  private lazy val partitions = {
    val (planned, choice) = scan.index.withRuntimeFilters(runtime)(scan.inner.planInputPartitions())
    scan.choice = Some(choice)
    planned
  }

  override def planInputPartitions(): Array[InputPartition] = partitions
  override def createReaderFactory(): PartitionReaderFactory = scan.readerFactory

  override def equals(other: Any): Boolean = other match {
    case that: CatalogExtBatch => scan == that.scan && runtime == that.runtime
    case _ => false
  }

  override def hashCode(): Int = scan.hashCode()
}
