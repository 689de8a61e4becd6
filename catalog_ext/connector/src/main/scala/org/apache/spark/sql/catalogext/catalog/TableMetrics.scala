package org.apache.spark.sql.catalogext.catalog

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** The value of a metric that the driver reports. */
case class DriverMetric(name: String, value: Long) extends CustomTaskMetric

/** The metrics of a scan. The names are those of Spark's own file scans. */
object ReadMetrics {
  val supported: Array[CustomMetric] =
    Array(new PartitionsReadMetric, new FilesReadMetric, new FilesSizeMetric, new FilesSkippedMetric)
}

/** The metrics of a write. */
object WriteMetrics {
  val supported: Array[CustomMetric] = Array(
    new FilesWrittenMetric, new PartitionsWrittenMetric, new RowsWrittenMetric, new BytesWrittenMetric,
    new FilesReplacedMetric, new CommitTimeMetric, new DuplicateMetric)
}

/** Names and describes a metric, which Spark's UI and the metrics of a plan show as a sum. */
sealed abstract class TableMetric(override val name: String, override val description: String) extends CustomSumMetric

// Spark makes these by their class names when it shows a query, so that each is a class without arguments.
class PartitionsReadMetric extends TableMetric("numPartitions", "number of partitions read")
class FilesReadMetric extends TableMetric("numFiles", "number of files read")
class FilesSizeMetric extends TableMetric("filesSize", "size of files read in bytes")
class FilesSkippedMetric extends TableMetric("skippedFiles", "number of files left out by their statistics")
class FilesWrittenMetric extends TableMetric("numWrittenFiles", "number of files written")
class PartitionsWrittenMetric extends TableMetric("numWrittenPartitions", "number of partitions added or changed")
class RowsWrittenMetric extends TableMetric("numWrittenRows", "number of rows written")
class BytesWrittenMetric extends TableMetric("numWrittenBytes", "bytes written")
class FilesReplacedMetric extends TableMetric("numReplacedFiles", "number of files replaced")
class CommitTimeMetric extends TableMetric("commitTime", "commit time in milliseconds")
class DuplicateMetric
  extends TableMetric("duplicateBatches", "batches that were committed already and not written again")
