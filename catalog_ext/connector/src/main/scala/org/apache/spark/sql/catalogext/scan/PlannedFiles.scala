package org.apache.spark.sql.catalogext.scan

import java.io.InputStream

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.{DriverMetric, PartitionValues, TableMetadata, TableTotals}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.Utils

/**
 * The amount of data that a scan reads, for Spark's UI, a plan's metrics and EXPLAIN.
 *
 * @param skippedFiles files in read partitions that were skipped by column statistics
 */
case class ScanChoice(partitions: Long, files: Long, bytes: Long, skippedFiles: Long = 0) {
  def metrics: Array[CustomTaskMetric] = Array(
    DriverMetric("numPartitions", partitions), DriverMetric("numFiles", files), DriverMetric("filesSize", bytes),
    DriverMetric("skippedFiles", skippedFiles))

  def +(other: ScanChoice): ScanChoice = ScanChoice(partitions + other.partitions, files + other.files,
    bytes + other.bytes, skippedFiles + other.skippedFiles)

  /** The numbers of partitions, files and bytes for EXPLAIN, each as "selected of total". */
  def shown(all: TableTotals): Map[String, String] = Map(
    "Partitions" -> s"$partitions of ${all.partitions}",
    "Files" -> s"$files of ${all.files}",
    "FileSize" -> s"${Utils.bytesToString(bytes)} of ${Utils.bytesToString(all.bytes)}") ++
    Option.when(skippedFiles > 0)("FilesSkipped" -> skippedFiles.toString)
}

/** The cost of planning a scan's files: requests to the service, and elapsed time in nanoseconds. */
case class PlanningCost(requests: Long, nanos: Long) {
  def +(other: PlanningCost): PlanningCost = PlanningCost(requests + other.requests, nanos + other.nanos)

  def metrics: Array[CustomTaskMetric] =
    Array(DriverMetric("indexRequests", requests), DriverMetric("indexTime", nanos / 1000000))
}

object PlannedFiles {
  val PartitionNameKey = "catalog_ext_partition"

  /**
   * Requests the files of `table` at its version, in the partitions that match `predicate`.
   *
   * @param choose accepts or rejects the received files
   * @param among the field `among` of the request: the partitions that `PartitionChoice` has selected
   * @param limit the number of rows that is enough
   * @param skipping skips files without matching rows
   * @param staleness the required freshness of the partitions
   * @param descriptor the number of the partitions' descriptor, 0 for the table's own; None for all
   */
  def fetch(
      client: ServiceClient,
      table: TableMetadata,
      choose: FileChoice,
      predicate: Option[JsonNode],
      among: JsonNode = Null,
      limit: Option[Int] = None,
      skipping: Option[FileSkipping] = None,
      staleness: JsonNode = Null,
      descriptor: Option[Long] = None): ChosenFiles = {
    val fields = skipping.toSeq.flatMap(_.fields)
    val question = request(table, predicate, among, limit, fields, staleness, descriptor)
    ServiceException.translating(client.stream("tables/plan", question)(read(_, choose, skipping)))
  }

  /** The files of an answer, whose rows arrive partition by partition. */
  private[catalogext] def read(
      input: InputStream, choose: FileChoice, skipping: Option[FileSkipping] = None): ChosenFiles = {
    val rows = new PlannedFileRows(choose, skipping)
    ArrowRows.foreachBatch(input)(rows.add)
    rows.result()
  }

  /**
   * Passes each file, as a group of one file with statistics of `fields`, to the consumer that `into` returns, until
   * the consumer needs no more.
   */
  def fetchEach[T <: GroupConsumer](
      client: ServiceClient,
      table: TableMetadata,
      values: PartitionValues,
      predicate: Option[JsonNode],
      fields: Seq[StructField],
      staleness: JsonNode)(into: => T): T = {
    val question = request(table, predicate, fields = fields, staleness = staleness)
    ServiceException.translating(client.stream("tables/plan", question) { input =>
      val consumer = into
      val bounds = new FileBounds(fields)
      ArrowRows.foreachBatchWhile(input) { batch =>
        val rows = new PlannedRows(batch)
        bounds.of(batch)
        (0 until batch.getRowCount).forall { row =>
          val (name, count) = (rows.partition(row), rows.rowCount(row))
          bounds.read(row, count)
          consumer.take(PartitionGroup(rows.partitionId(row), name, values.parse(name), 1, 1, rows.size(row),
            Option.when(count >= 0)(count), Some(bounds)))
        }
      }
      consumer
    })
  }

  /**
   * The files with unknown row counts in the partitions that match `predicate`. `choice` makes an object that adds up
   * the counts of all other files; a repeated request starts with a new one, so no count is added twice.
   */
  def fetchUncounted(
      client: ServiceClient,
      table: TableMetadata,
      predicate: Option[JsonNode],
      staleness: JsonNode)(choice: => UncountedFiles): (UncountedFiles, ChosenFiles) = ServiceException.translating {
    client.stream("tables/plan", request(table, predicate, staleness = staleness)) { input =>
      val choose = choice
      (choose, read(input, choose))
    }
  }

  private def request(
      table: TableMetadata,
      predicate: Option[JsonNode],
      among: JsonNode = Null,
      limit: Option[Int] = None,
      fields: Seq[StructField] = Nil,
      staleness: JsonNode = Null,
      descriptor: Option[Long] = None): JsonNode = obj(Seq(
    "table_id" -> long(table.tableId),
    "version" -> long(table.version),
    "predicate" -> predicate.getOrElse(Null),
    "among" -> among,
    "limit" -> limit.fold(Null)(rows => long(rows.toLong)),
    "bounds" -> arr(fields.map(field => text(field.name))),
    "staleness" -> staleness) ++ descriptor.map(number => "descriptor" -> long(number)): _*)
}

/** Collects the rows of `tables/plan`, which arrive partition by partition, also across batches. */
private class PlannedFileRows(choose: FileChoice, skipping: Option[FileSkipping]) {
  private val bounds = skipping.map(by => new FileBounds(by.fields))
  private val builder = new ChosenFilesBuilder(choose)
  private var skipped = 0L
  private var current = 0L
  private var isBegun = false

  def add(batch: VectorSchemaRoot): Unit = {
    val rows = new PlannedRows(batch)
    bounds.foreach(_.of(batch))
    var row = 0
    while (row < batch.getRowCount) {
      if (!isBegun || rows.partitionId(row) != current) {
        finish()
        current = rows.partitionId(row)
        isBegun = true
        rows.begin(row, builder.batch)
      }
      if (isLeft(rows, row)) rows.add(row, builder.batch) else skipped += 1
      row += 1
    }
  }

  private def isLeft(rows: PlannedRows, row: Int): Boolean = skipping.forall { by =>
    bounds.get.read(row, rows.rowCount(row))
    by.mayHold(bounds.get)
  }

  private def finish(): Unit = {
    if (isBegun) builder.end()
    isBegun = false
  }

  def result(): ChosenFiles = {
    finish()
    builder.result(skipped)
  }
}

/** The rows of one batch of `tables/plan`. A batch of `tables/changes` has the same columns and more. */
private[catalogext] class PlannedRows(batch: VectorSchemaRoot) {
  private val ids = batch.getVector("partition_id").asInstanceOf[BigIntVector]
  private val names = batch.getVector("partition").asInstanceOf[VarCharVector]
  private val locations = batch.getVector("location").asInstanceOf[VarCharVector]
  private val paths = batch.getVector("path").asInstanceOf[VarCharVector]
  private val sizes = batch.getVector("size").asInstanceOf[BigIntVector]
  private val modified = batch.getVector("modified_ms").asInstanceOf[BigIntVector]
  private val rows = batch.getVector("rows").asInstanceOf[BigIntVector]

  def partitionId(row: Int): Long = ids.get(row)
  def size(row: Int): Long = sizes.get(row)
  /** The row count of a file; negative if it is unknown. */
  def rowCount(row: Int): Long = if (rows.isNull(row)) -1 else rows.get(row)

  def modifiedMs(row: Int): Long = modified.get(row)
  /** The name of the file's partition. */
  def partition(row: Int): String = names.getObject(row).toString
  /** The partition's directory if it is not at the default place below the table's location. */
  def location(row: Int): Option[String] = Option(locations.getObject(row)).map(_.toString)
  /** The file's path, relative to the partition's directory. */
  def path(row: Int): String = paths.getObject(row).toString

  /** Starts, in `batch`, the partition of the file in this row. */
  private[scan] def begin(row: Int, batch: FileBatch): Unit = batch.begin {
    batch.names.add(names, row)
    if (locations.isNull(row)) batch.locations.add("") else batch.locations.add(locations, row)
  }

  private[scan] def add(row: Int, batch: FileBatch): Unit =
    batch.add(sizes.get(row), modified.get(row), rowCount(row))(batch.paths.add(paths, row))
}

/** Selects files among those that the service returns. */
private[catalogext] trait FileChoice {
  /** Whether the scan reads any file of the partition. The method removes rejected files from `directory`. */
  def leaves(directory: DirectoryFiles): Boolean
}

/** Accepts all files. */
private[catalogext] object AllFiles extends FileChoice {
  override def leaves(directory: DirectoryFiles): Boolean = true
}

/** Accepts files with unknown row counts; `into` receives the counts of all others. */
private[catalogext] class UncountedFiles(filter: PartitionFilter, values: PartitionValues, val into: AnswerRows)
  extends FileChoice {

  override def leaves(directory: DirectoryFiles): Boolean = {
    val name = directory.name
    val row = values.parse(name)
    filter.matches(row) && {
      // A partition with an uncounted file is not yet counted as complete; it counts when all its files are.
      val whole = if (directory.rows.isDefined) 1 else 0
      for (file <- 0 until directory.count if directory.rowCount(file) >= 0) {
        into.take(PartitionGroup(0, name, row, whole, 1, directory.size(file), Some(directory.rowCount(file))))
      }
      directory.retain(directory.rowCount(_) < 0)
      directory.count > 0
    }
  }
}

/**
 * Selects by Spark's filters on partition columns and hidden file columns, evaluated exactly, and by the read's options
 * on file names and times.
 */
private[catalogext] class FilteredFiles(
    keys: StructType,
    fileColumns: StructType,
    values: PartitionValues,
    filters: Seq[Expression],
    options: FileFilters,
    tableLocation: String)
  extends FileChoice {

  private val (ofFiles, ofKeys) = filters.partition(FileColumns.mentioned(fileColumns, _))
  private val keyFilter = new PartitionFilter(keys, ofKeys)
  private val fileFilter = new PartitionFilter(StructType(keys ++ fileColumns), ofFiles)

  // Parse the name even if no filter needs its values: a name that does not fit the table's keys must fail before a
  // task starts.
  override def leaves(directory: DirectoryFiles): Boolean = {
    val row = values.parse(directory.name).asInstanceOf[GenericInternalRow]
    keyFilter.matches(row) && {
      if (ofFiles.nonEmpty || !options.isEmpty) retain(directory, row)
      directory.count > 0
    }
  }

  private def retain(directory: DirectoryFiles, row: GenericInternalRow): Unit = {
    val place = directory.directory(tableLocation)
    val name = directory.name
    directory.retain { file =>
      val status = directory.status(file, place)
      options.accepts(status) && (ofFiles.isEmpty || fileFilter.matches(
        FileColumns.values(fileColumns, row, name, status.getPath, status.getLen, status.getModificationTime)))
    }
  }
}
