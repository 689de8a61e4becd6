package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalogext.catalog.{DriverMetric, PartitionValues, TableMetadata, TableTotals}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.execution.datasources.{FileStatusWithMetadata, PartitionDirectory}
import org.apache.spark.util.Utils

/** The files of one partition as the index has them. */
case class PlannedPartition(name: String, values: InternalRow, files: Seq[FileStatus], rows: Option[Long]) {
  def bytes: Long = files.iterator.map(_.getLen).sum

  /** With those files only; how many rows some of the files have nobody knows. */
  def filtered(keep: FileStatus => Boolean): PlannedPartition = {
    val kept = files.filter(keep)
    if (kept.size == files.size) this else copy(files = kept, rows = None)
  }

  /** Every file carries its partition's name, so that a task can say where a missing file belonged. */
  def directory: PartitionDirectory =
    PartitionDirectory(values, files.map(FileStatusWithMetadata(_, Map(PlannedFiles.PartitionNameKey -> name))))
}

/** How much a scan reads, as Spark's UI, the metrics of a plan and EXPLAIN show it. */
case class ScanChoice(partitions: Long, files: Long, bytes: Long) {
  def metrics: Array[CustomTaskMetric] = Array(
    DriverMetric("numPartitions", partitions), DriverMetric("numFiles", files), DriverMetric("filesSize", bytes))

  /** For EXPLAIN: what is chosen of what there is. */
  def shown(all: TableTotals): Map[String, String] = Map(
    "Partitions" -> s"$partitions of ${all.partitions}",
    "Files" -> s"$files of ${all.files}",
    "FileSize" -> s"${Utils.bytesToString(bytes)} of ${Utils.bytesToString(all.bytes)}")
}

object ScanChoice {
  def of(partitions: Seq[PlannedPartition]): ScanChoice =
    ScanChoice(partitions.size, partitions.iterator.map(_.files.size.toLong).sum, partitions.iterator.map(_.bytes).sum)
}

object PlannedFiles {
  val PartitionNameKey = "catalog_ext_partition"

  /**
   * Asks the service once for the files of `table` at its version, in the partitions that `predicate` leaves.
   *
   * @param among where alone to look, as `PartitionChoice` says it
   * @param limit how many rows are enough
   */
  def fetch(
      client: ServiceClient,
      table: TableMetadata,
      values: PartitionValues,
      predicate: Option[JsonNode],
      among: JsonNode = Null,
      limit: Option[Int] = None): Seq[PlannedPartition] = {
    val request = obj(
      "table_id" -> long(table.tableId),
      "version" -> long(table.version),
      "predicate" -> predicate.getOrElse(Null),
      "among" -> among,
      "limit" -> limit.fold(Null)(rows => long(rows.toLong)))
    ServiceException.translating {
      client.stream("tables/plan", request) { input =>
        val rows = new PlannedFileRows(table.location, values)
        ArrowRows.foreachBatch(input)(rows.add)
        rows.result()
      }
    }
  }
}

/** Gathers the rows of `tables/plan`, which come partition by partition, across batches. */
private[catalogext] class PlannedFileRows(tableLocation: String, values: PartitionValues) {
  private val partitions = ArrayBuffer.empty[PlannedPartition]
  private var files = ArrayBuffer.empty[FileStatus]
  private var currentId = 0L
  private var name: String = _
  private var directory: String = _
  private var rowCount: Option[Long] = Some(0L)

  def add(batch: VectorSchemaRoot): Unit = add(batch, batch.getRowCount)

  /** The first `count` rows of a batch. */
  def add(batch: VectorSchemaRoot, count: Int): Unit = {
    val rows = new PlannedRows(tableLocation, batch)
    for (i <- 0 until count) {
      if (name == null || rows.partitionId(i) != currentId) {
        finish()
        currentId = rows.partitionId(i)
        name = rows.partition(i)
        directory = rows.directory(i)
      }
      files += rows.status(i, directory)
      rowCount = rows.rowCount(i).flatMap(count => rowCount.map(_ + count))
    }
  }

  def result(): Seq[PlannedPartition] = {
    finish()
    partitions.toSeq
  }

  private def finish(): Unit = if (name != null) {
    partitions += PlannedPartition(name, values.parse(name), files.toSeq, rowCount)
    files = ArrayBuffer.empty
    rowCount = Some(0L)
    name = null
  }
}

/** The rows of one batch of `tables/plan`, or of `tables/changes`, which has its columns too. */
private[catalogext] class PlannedRows(tableLocation: String, batch: VectorSchemaRoot) {
  private val ids = batch.getVector("partition_id").asInstanceOf[BigIntVector]
  private val names = batch.getVector("partition").asInstanceOf[VarCharVector]
  private val locations = batch.getVector("location").asInstanceOf[VarCharVector]
  private val paths = batch.getVector("path").asInstanceOf[VarCharVector]
  private val sizes = batch.getVector("size").asInstanceOf[BigIntVector]
  private val modified = batch.getVector("modified_ms").asInstanceOf[BigIntVector]
  private val rows = batch.getVector("rows").asInstanceOf[BigIntVector]

  def partitionId(row: Int): Long = ids.get(row)
  def partition(row: Int): String = string(names, row)
  def path(row: Int): String = string(paths, row)
  def directory(row: Int): String =
    if (locations.isNull(row)) join(tableLocation, partition(row)) else string(locations, row)
  def rowCount(row: Int): Option[Long] = Option.when(!rows.isNull(row))(rows.get(row))

  /** The file. Its path is text as on the store, never percent-encoded: what Hadoop's Path(String) takes. */
  def status(row: Int, directory: String): FileStatus =
    new FileStatus(
      sizes.get(row), false, 1, PlannedRows.NoBlockSize, modified.get(row),
      new Path(join(directory, string(paths, row))))

  private def string(vector: VarCharVector, row: Int): String =
    new String(vector.get(row), java.nio.charset.StandardCharsets.UTF_8)

  private def join(parent: String, child: String): String =
    if (child.isEmpty) parent else if (parent.endsWith("/")) parent + child else s"$parent/$child"
}

private object PlannedRows {
  // Spark splits by size alone; only a LocatedFileStatus tells it of blocks.
  private val NoBlockSize = 0L
}
