package org.apache.spark.sql.catalogext.catalog

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** The value of a metric that the driver reports. */
case class DriverMetric(name: String, value: Long) extends CustomTaskMetric

/** The metrics of a scan. The names are those of Spark's own file scans. */
object ReadMetrics {
  val supported: Array[CustomMetric] =
    Array(new PartitionsReadMetric, new PartitionsOfTableMetric, new FilesReadMetric, new FilesOfTableMetric,
      new FilesSizeMetric, new FilesSkippedMetric, new IndexRequestsMetric, new IndexTimeMetric, new PackingTimeMetric)

  /** Totals of the whole table, which a scan reports beside the numbers that it reads. */
  def ofTable(totals: TableTotals): Array[CustomTaskMetric] = Array(
    DriverMetric("numPartitionsOfTable", totals.partitions), DriverMetric("numFilesOfTable", totals.files))
}

/** Metrics of an aggregation that reads file footers. */
object FooterMetrics {
  val supported: Array[CustomMetric] = Array(new FilesReadMetric, new IndexRequestsMetric, new IndexTimeMetric)
}

/** The metrics of a write. */
object WriteMetrics {
  val supported: Array[CustomMetric] = Array(
    new FilesWrittenMetric, new PartitionsWrittenMetric, new RowsWrittenMetric, new BytesWrittenMetric,
    new FilesReplacedMetric, new CommitTimeMetric, new DuplicateMetric)
}

/** The base class of metrics. Spark's UI and the metrics of a plan show their sum over all tasks. */
sealed abstract class TableMetric(override val name: String, override val description: String) extends CustomSumMetric

// Spark creates metrics by class name when it shows a query, so each needs a class without arguments.
class PartitionsReadMetric extends TableMetric("numPartitions", "number of partitions read")
class PartitionsOfTableMetric extends TableMetric("numPartitionsOfTable", "number of partitions of the table")
class FilesReadMetric extends TableMetric("numFiles", "number of files read")
class FilesOfTableMetric extends TableMetric("numFilesOfTable", "number of files of the table")
class FilesSizeMetric extends TableMetric("filesSize", "size of files read in bytes")
class FilesSkippedMetric extends TableMetric("skippedFiles", "number of files left out by their statistics")
class IndexRequestsMetric extends TableMetric("indexRequests", "requests to the index's service")
class IndexTimeMetric extends TableMetric("indexTime", "time to choose files by the index in milliseconds")
class PackingTimeMetric extends TableMetric("packingTime", "time to share files among tasks in milliseconds")
class FilesWrittenMetric extends TableMetric("numWrittenFiles", "number of files written")
class PartitionsWrittenMetric extends TableMetric("numWrittenPartitions", "number of partitions added or changed")
class RowsWrittenMetric extends TableMetric("numWrittenRows", "number of rows written")
class BytesWrittenMetric extends TableMetric("numWrittenBytes", "bytes written")
class FilesReplacedMetric extends TableMetric("numReplacedFiles", "number of files replaced")
class CommitTimeMetric extends TableMetric("commitTime", "commit time in milliseconds")
class DuplicateMetric
  extends TableMetric("duplicateBatches", "batches that were committed already and not written again")
