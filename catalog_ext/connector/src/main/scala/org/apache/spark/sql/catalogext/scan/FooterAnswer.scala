package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable

import org.apache.spark.sql.catalogext.catalog.{DriverMetric, FooterMetrics, PartitionValues}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan}
import org.apache.spark.sql.connector.read.Scan.ColumnarSupportMode
import org.apache.spark.sql.execution.datasources.v2.PartitionReaderFromIterator
import org.apache.spark.sql.types.StructType

/**
 * An aggregation over partition columns and row counts that the index can answer, except for files with unknown row
 * counts.
 *
 * It is computed when the query runs, not when it is planned, so EXPLAIN opens no file. Tasks read the footers of the
 * uncounted files, and the counts are stored in the index for the next query.
 *
 * @param learns whether the counts are stored
 * @param grouping the positions of the grouping keys
 */
private[scan] class FooterAnswer(
    name: String,
    private val index: PlannedFileIndex,
    filters: Seq[Expression],
    override val readSchema: StructType,
    private val learns: Boolean,
    private val grouping: Seq[Int],
    private val functions: Seq[KeyFunction])
  extends Scan with Batch {

  // Keep the answer: the table has a fixed version, so another execution of the plan returns the same rows.
  private lazy val answer: Array[InputPartition] = packed(counted())
  @volatile private var footers = 0L

  override def toBatch: Batch = this
  override def planInputPartitions(): Array[InputPartition] = answer
  override def createReaderFactory(): PartitionReaderFactory = AnswerReaderFactory
  override def columnarSupportMode: ColumnarSupportMode = ColumnarSupportMode.UNSUPPORTED
  override def description(): String = s"$name counted by footers where the index has no row counts, Version: ${index.table.version}"

  override def supportedCustomMetrics(): Array[CustomMetric] = FooterMetrics.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] =
    index.cost.metrics :+ DriverMetric("numFiles", footers)

  private def counted(): Array[InternalRow] = {
    val learned = Option.when(learns)(new LearnedCounts(index.client, index.catalogName, index.table))
    try {
      val (rows, files) = index.uncounted(filters)(new AnswerRows(index.keys, _, grouping, functions))
      if (rows.presence.isTracked) untilPresent(files, rows, learned) else read(files, rows, learned)
      learned.foreach(_.finish())
      rows.answered.get
    } finally learned.foreach(_.close())
  }

  /**
   * Reads the partitions of each value until a partition has rows, which is enough for the answer. The number of
   * partitions per round doubles, because many may be empty.
   */
  private def untilPresent(files: ChosenFiles, rows: AnswerRows, learned: Option[LearnedCounts]): Unit = {
    var (first, next) = (0L, 1L)
    var left = true
    while (left) {
      val round = new NextPartitions(index.values, rows.presence, first, next)
      read(files.filtered(round), rows, learned)
      left = round.hasMore
      first = next
      next = next * 2 + 1
    }
  }

  private def read(files: ChosenFiles, rows: AnswerRows, learned: Option[LearnedCounts]): Unit = {
    val values = index.values
    footers += files.choice.files
    index.footers.read(files)(part => learned.foreach(_.add(part))).foreach { part =>
      part.files.foreach { case (partition, file, i) =>
        rows.take(PartitionGroup(
          0, partition.name, values.parse(partition.name), 1, 1, partition.size(file), Some(part.footers.rows(i))))
      }
    }
  }

  private val bound = filters.map(PartitionFilter.bound(index.keys, _).canonicalized).toSet

  // Equal if they read the same, so that Spark reuses an exchange over equal scans.
  override def equals(other: Any): Boolean = other match {
    case that: FooterAnswer =>
      index == that.index && bound == that.bound && learns == that.learns && grouping == that.grouping &&
        functions == that.functions
    case _ => false
  }

  override def hashCode(): Int = (index, bound, grouping, functions).hashCode()

  private def packed(rows: Array[InternalRow]): Array[InputPartition] = {
    val projection = UnsafeProjection.create(readSchema)
    rows.grouped(FooterAnswer.RowsOfTask).map { some =>
      AnswerPartition(some.map(projection(_).copy())): InputPartition
    }.toArray
  }
}

private object FooterAnswer {
  val RowsOfTask = 10000
}

/** Chooses, for each value that is not known to have rows, its partitions number `first` until `next`. */
private class NextPartitions(values: PartitionValues, presence: KeyPresence, first: Long, next: Long) extends FileChoice {
  private val seen = mutable.HashMap.empty[(Int, Seq[Any]), Long]
  /** Whether a value has partitions after those that were chosen. */
  var hasMore = false

  override def leaves(directory: DirectoryFiles): Boolean = {
    val numbers = presence.missing(values.parse(directory.name)).map { value =>
      val number = seen.getOrElse(value, 0L)
      seen(value) = number + 1
      number
    }
    hasMore ||= numbers.exists(_ >= next)
    numbers.exists(number => number >= first && number < next)
  }
}

/** Rows that the driver has computed. */
private case class AnswerPartition(rows: Array[UnsafeRow]) extends InputPartition

private object AnswerReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReaderFromIterator(partition.asInstanceOf[AnswerPartition].rows.iterator)
}
