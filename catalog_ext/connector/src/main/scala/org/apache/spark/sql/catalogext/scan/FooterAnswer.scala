package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.catalog.{DriverMetric, FooterMetrics}
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
 * @param into the rows of the answer, given the filters that they evaluate
 */
class FooterAnswer(
    name: String,
    index: PlannedFileIndex,
    filters: Seq[Expression],
    override val readSchema: StructType,
    learns: Boolean,
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
    val (rows, files) = index.uncounted(filters)(into)
    footers = files.choice.files
    val values = index.values
    read(files).foreach { part =>
      val input = new FileInput(part.files.packed)
      part.rows.foreach { count =>
        input.next()
        val partition = input.name.toString
        rows.take(PartitionGroup(0, partition, values.parse(partition), 1, 1, input.size, Some(count)))
      }
    }
    rows.answered.get
  }

  private def read(files: PackedFiles): Seq[CountedPart] =
    if (!learns) index.footers.read(files)(_ => ())
    else {
      val learned = new LearnedCounts(index.client, index.catalogName, index.table)
      try {
        val found = index.footers.read(files)(learned.add)
        learned.finish()
        found
      } finally learned.close()
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
