package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkContext
import org.apache.spark.sql.connector.read.PartitionReaderFactory

/** The row counts of one task's files, in their order, and which of them are of the file that the index has. */
case class CountedPart(files: PackedFilePartition, rows: Array[Long], areIndexed: Array[Boolean])

/**
 * Counts the rows of files by their footers: of a few on the driver, of more in tasks. The driver holds the packed files and
 * nine bytes a file.
 *
 * @param readers of `FooterReaderFactory`, which explain what is wrong with a file
 */
class FooterJob(context: SparkContext, readers: PartitionReaderFactory) {
  import FooterJob._

  /** All counts. `use` gets those of each task as soon as it ends, on a thread of Spark's scheduler: it must not wait. */
  def read(files: PackedFiles)(use: CountedPart => Unit): Seq[CountedPart] = {
    val parts = shares(files)
    val found = new Array[CountedPart](parts.length)
    val take = (part: Int, counts: (Array[Long], Array[Boolean])) => {
      found(part) = CountedPart(parts(part), counts._1, counts._2)
      use(found(part))
    }
    if (files.choice.files <= MostOfDriver) parts.indices.foreach(part => take(part, count(readers, parts(part))))
    else {
      // Not this object, which holds the context.
      val ofTasks = readers
      context.runJob(context.parallelize(parts, parts.length),
        (part: Iterator[PackedFilePartition]) => count(ofTasks, part.next()), take)
    }
    found.toSeq
  }

  private def shares(files: PackedFiles): Seq[PackedFilePartition] = {
    val tasks = math.max(context.defaultParallelism * TasksPerCore, 1)
    val most = math.min(math.max(files.choice.files / tasks, LeastOfTask), MostOfTask).toInt
    val found = ArrayBuffer.empty[PackedFilePartition]
    val output = new FileOutput
    var count = 0
    def close(): Unit = {
      if (count > 0) found += PackedFilePartition(found.length, output.take(), Array.empty)
      count = 0
    }
    files.foreachDirectory { directory =>
      output.nextDirectory()
      for (file <- 0 until directory.count) {
        output.add(directory, file, 0, directory.size(file))
        count += 1
        if (count == most) close()
      }
    }
    close()
    found.toSeq
  }
}

private object FooterJob {
  /** A task takes longer to start than a few footers take to be read. */
  val MostOfDriver = 100
  private val TasksPerCore = 4
  private val LeastOfTask = 50L
  // A task that fails is read again, and its counts are recorded by one request.
  private val MostOfTask = 1000L

  def count(readers: PartitionReaderFactory, files: PackedFilePartition): (Array[Long], Array[Boolean]) = {
    val (rows, areIndexed) = (ArrayBuffer.empty[Long], ArrayBuffer.empty[Boolean])
    val reader = readers.createReader(files)
    try while (reader.next()) {
      rows += reader.get().getLong(0)
      areIndexed += reader.get().getBoolean(1)
    } finally reader.close()
    (rows.toArray, areIndexed.toArray)
  }
}
