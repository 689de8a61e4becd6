package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.catalog.TableTotals
import org.apache.spark.util.Utils

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** What a scan chose, as Spark's UI and the metrics of a plan show it. The names are those of Spark's own file scans. */
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

  val supported: Array[CustomMetric] = Array(new PartitionsReadMetric, new FilesReadMetric, new FilesSizeMetric)
}

private[catalogext] case class DriverMetric(name: String, value: Long) extends CustomTaskMetric

// Spark makes these by their class names when it shows a query, so that they need constructors without arguments.
class PartitionsReadMetric extends CustomSumMetric {
  override def name(): String = "numPartitions"
  override def description(): String = "number of partitions read"
}

class FilesReadMetric extends CustomSumMetric {
  override def name(): String = "numFiles"
  override def description(): String = "number of files read"
}

class FilesSizeMetric extends CustomSumMetric {
  override def name(): String = "filesSize"
  override def description(): String = "size of files read in bytes"
}
