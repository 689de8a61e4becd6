package org.apache.spark.sql.catalogext.write

import org.apache.spark.sql.catalogext.scan.DriverMetric
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** What a write did, as Spark's UI and the metrics of a plan show it. */
object WriteMetrics {
  val supported: Array[CustomMetric] = Array(
    new FilesWrittenMetric, new PartitionsWrittenMetric, new RowsWrittenMetric, new BytesWrittenMetric,
    new FilesReplacedMetric, new CommitTimeMetric, new DuplicateMetric)

  def of(outcome: WriteOutcome): Array[CustomTaskMetric] = Array(
    DriverMetric("numWrittenFiles", outcome.files),
    DriverMetric("numWrittenPartitions", outcome.partitions),
    DriverMetric("numWrittenRows", outcome.rows),
    DriverMetric("numWrittenBytes", outcome.bytes),
    DriverMetric("numReplacedFiles", outcome.filesRemoved),
    DriverMetric("commitTime", outcome.commitMillis),
    DriverMetric("duplicateBatches", if (outcome.duplicate) 1 else 0))

  val ofDuplicate: Array[CustomTaskMetric] = Array(DriverMetric("duplicateBatches", 1))
}

// Spark makes these by their class names when it shows a query, so that they need constructors without arguments.
class FilesWrittenMetric extends CustomSumMetric {
  override def name(): String = "numWrittenFiles"
  override def description(): String = "number of files written"
}

class PartitionsWrittenMetric extends CustomSumMetric {
  override def name(): String = "numWrittenPartitions"
  override def description(): String = "number of partitions added or changed"
}

class RowsWrittenMetric extends CustomSumMetric {
  override def name(): String = "numWrittenRows"
  override def description(): String = "number of rows written"
}

class BytesWrittenMetric extends CustomSumMetric {
  override def name(): String = "numWrittenBytes"
  override def description(): String = "bytes written"
}

class FilesReplacedMetric extends CustomSumMetric {
  override def name(): String = "numReplacedFiles"
  override def description(): String = "number of files replaced"
}

class CommitTimeMetric extends CustomSumMetric {
  override def name(): String = "commitTime"
  override def description(): String = "commit time in milliseconds"
}

class DuplicateMetric extends CustomSumMetric {
  override def name(): String = "duplicateBatches"
  override def description(): String = "batches that were committed already and not written again"
}
