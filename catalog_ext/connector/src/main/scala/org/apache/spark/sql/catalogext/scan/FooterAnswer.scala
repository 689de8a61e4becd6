package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable

import org.apache.spark.sql.catalogext.catalog.{DriverMetric, FooterMetrics, PartitionValues}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan}
import org.apache.spark.sql.connector.read.Scan.ColumnarSupportMode
import org.apache.spark.sql.types.StructType

/**
 * An aggregation over partition columns and row counts that the index can answer but for files whose rows are not known.
 *
 * It is answered when the query runs, and not when it is planned: EXPLAIN opens no file. The footers of the uncounted files
 * are read in tasks, and what they say goes into the index for the next query.
 *
 * @param learns whether the counts are recorded
 * @param groups where the answer asks only whether there are rows: the places of keys of whose values one partition with
 *               rows is enough. Nothing where it counts rows
 * @param into the rows of the answer, given the filters that they evaluate
 */
class FooterAnswer(
    name: String,
    index: PlannedFileIndex,
    filters: Seq[Expression],
    override val readSchema: StructType,
    learns: Boolean,
    groups: Seq[Seq[Int]],
    into: PartitionFilter => AnswerRows)
  extends Scan with Batch {

  // A plan that runs again gives the same rows: it is of one version.
  private lazy val answer: Array[InputPartition] = packed(counted())
  @volatile private var footers = 0L

  override def toBatch: Batch = this
  override def planInputPartitions(): Array[InputPartition] = answer
  override def createReaderFactory(): PartitionReaderFactory = AnswerReaderFactory
  override def columnarSupportMode: ColumnarSupportMode = ColumnarSupportMode.UNSUPPORTED
  override def description(): String = s"$name counted by footers of files whose rows the index does not know"

  override def supportedCustomMetrics(): Array[CustomMetric] = FooterMetrics.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] =
    index.cost.metrics :+ DriverMetric("numFiles", footers)

  private def counted(): Array[InternalRow] = {
    val learned = Option.when(learns)(new LearnedCounts(index.client, index.catalogName, index.table))
    try {
      val (found, files) = index.uncounted(filters)(filter => new FoundGroups(index.keys, groups, into(filter)))
      if (groups.isEmpty) read(files, found, learned)
      else untilPresent(files, found, learned)
      learned.foreach(_.finish())
      found.rows.answered.get
    } finally learned.foreach(_.close())
  }

  /** Reads partitions of each group until one has rows, in rounds that double: there may be many without. */
  private def untilPresent(files: PackedFiles, found: FoundGroups, learned: Option[LearnedCounts]): Unit = {
    var (first, next) = (0L, 1L)
    var left = true
    while (left) {
      val round = new NextPartitions(index.values, found, first, next)
      read(files.filtered(round), found, learned)
      left = round.hasMore
      first = next
      next = next * 2 + 1
    }
  }

  private def read(files: PackedFiles, found: FoundGroups, learned: Option[LearnedCounts]): Unit = {
    val values = index.values
    footers += files.choice.files
    index.footers.read(files)(part => learned.foreach(_.add(part))).foreach { part =>
      val input = new FileInput(part.files.packed)
      part.rows.foreach { count =>
        input.next()
        val partition = input.name.toString
        found.take(PartitionGroup(0, partition, values.parse(partition), 1, 1, input.size, Some(count)))
      }
    }
  }

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

/** Gives partitions and files to the rows of an answer, and notes which groups of key values have rows. */
private[scan] class FoundGroups(keys: StructType, groups: Seq[Seq[Int]], val rows: AnswerRows) extends GroupConsumer {
  private val present = groups.map(_ => mutable.HashSet.empty[Seq[Any]])

  override def take(group: PartitionGroup): Boolean = {
    if (group.rows.exists(_ > 0)) of(group.values).zip(present).foreach { case (values, known) => known += values }
    rows.take(group)
  }

  /** The groups that a partition with these values is in and of which none is known to have rows. */
  def missing(values: InternalRow): Seq[(Int, Seq[Any])] = of(values).zip(present).zipWithIndex.collect {
    case ((value, known), group) if !known(value) => (group, value)
  }

  private def of(values: InternalRow): Seq[Seq[Any]] = groups.map(_.map(at => values.get(at, keys(at).dataType)))
}

/** The partitions number `first` until `next` of each group that is not known to have rows. */
private class NextPartitions(values: PartitionValues, found: FoundGroups, first: Long, next: Long) extends FileChoice {
  private val seen = mutable.HashMap.empty[(Int, Seq[Any]), Long]
  /** Whether a group has partitions after these. */
  var hasMore = false

  override def leaves(directory: DirectoryFiles): Boolean = {
    val numbers = found.missing(values.parse(directory.name.toString)).map { group =>
      val number = seen.getOrElse(group, 0L)
      seen(group) = number + 1
      number
    }
    hasMore ||= numbers.exists(_ >= next)
    numbers.exists(number => number >= first && number < next)
  }
}

/** Rows that the driver has found. */
private case class AnswerPartition(rows: Array[UnsafeRow]) extends InputPartition

private object AnswerReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = new PartitionReader[InternalRow] {
    private val rows = partition.asInstanceOf[AnswerPartition].rows
    private var at = -1

    override def next(): Boolean = {
      at += 1
      at < rows.length
    }
    override def get(): InternalRow = rows(at)
    override def close(): Unit = ()
  }
}
