package org.apache.spark.sql.catalogext.scan

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.connector.read.PartitionReaderFactory
import org.apache.spark.sql.execution.datasources.FilePartition

/** The row counts of one task's files, in their order, and which of them are of the file that the index has. */
private[scan] case class CountedPart(range: PartRange, rows: Array[Long], areIndexed: Array[Boolean]) {
  /** Each file with its partition and its number there, and its place among the counts. */
  def files: Iterator[(DirectoryFiles, Int, Int)] = rows.indices.iterator.map { i =>
    val (batch, file) = (range.parts.batch, range.from + i)
    val partition = batch.partitionOf(file)
    (partition, file - batch.firstOf(partition.number), i)
  }
}

/**
 * Counts the rows of files by their footers: of a few on the driver, of more in tasks. The driver holds the batches of the
 * files and nine bytes a file.
 *
 * @param readers of `FooterReaderFactory`, which explain what is wrong with a file
 */
private[scan] class FooterJob(context: SparkContext, maker: FileMaker, readers: PartitionReaderFactory) {
  import FooterJob._

  /** All counts. `use` gets those of each task as soon as it ends, on a thread of Spark's scheduler: it must not wait. */
  def read(files: ChosenFiles)(use: CountedPart => Unit): Seq[CountedPart] = {
    val parts = ranges(files)
    val shares = parts.zipWithIndex.map { case (part, i) => new FileShare(i, Seq(part), Array.empty, maker) }
    val found = new Array[CountedPart](parts.length)
    val take = (part: Int, counts: Counts) => {
      found(part) = CountedPart(parts(part), counts._1, counts._2)
      use(found(part))
    }
    if (files.choice.files <= MostOfDriver) shares.foreach(share => take(share.index, counts(readers, share.files)))
    else context.runJob(new FooterRdd(context, shares, readers), (found: Iterator[Counts]) => found.next(), take)
    found.toSeq
  }

  private def ranges(files: ChosenFiles): Seq[PartRange] = {
    val tasks = math.max(context.defaultParallelism * TasksPerCore, 1)
    val most = math.min(math.max(files.choice.files / tasks, LeastOfTask), MostOfTask).toInt
    files.batches.flatMap { batch =>
      val parts = new FileParts(batch)
      (0 until batch.files by most).map(from => PartRange(parts, from, math.min(from + most, batch.files)))
    }
  }
}

private object FooterJob {
  /** A task takes longer to start than a few footers take to be read. */
  val MostOfDriver = 100
  private val TasksPerCore = 4
  private val LeastOfTask = 50L
  // A task that fails is read again, and its counts are recorded by one request.
  private val MostOfTask = 1000L

  type Counts = (Array[Long], Array[Boolean])

  def counts(readers: PartitionReaderFactory, files: FilePartition): Counts = {
    val reader = readers.createReader(files)
    try Iterator.continually(reader).takeWhile(_.next()).map(_.get())
      .map(footer => (footer.getLong(0), footer.getBoolean(1))).toArray.unzip
    finally reader.close()
  }
}

/** A task for each share. Those of `parallelize` would be sent by a serializer that does not ask a share for its files. */
private class FooterRdd(context: SparkContext, @transient shares: Seq[FileShare], readers: PartitionReaderFactory)
  extends RDD[FooterJob.Counts](context, Nil) {

  override protected def getPartitions: Array[Partition] = shares.toArray
  override def compute(share: Partition, task: TaskContext): Iterator[FooterJob.Counts] =
    Iterator(FooterJob.counts(readers, share.asInstanceOf[FilePartition]))
}
