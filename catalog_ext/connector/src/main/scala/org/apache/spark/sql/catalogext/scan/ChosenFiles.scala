package org.apache.spark.sql.catalogext.scan

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/**
 * The files of a scan. The driver keeps these batches, and no other object whose size grows with the number of files.
 *
 * @param choice the totals of the files
 * @param rows the sum of their row counts; None if the row count of a file is unknown
 */
private[catalogext] class ChosenFiles(val batches: Seq[FileBatch], val choice: ScanChoice, val rows: Option[Long]) {
  /** The files of each partition in turn. */
  def partitions: Iterator[DirectoryFiles] =
    batches.iterator.flatMap(batch => (0 until batch.partitions).iterator.map(batch.partition))

  /** The files in turn: each file's partition, and its number in that partition. */
  def files: Iterator[(DirectoryFiles, Int)] = partitions.flatMap(in => (0 until in.count).iterator.map(in -> _))

  /** The files in groups of so many batches, for one job each. */
  def grouped(size: Int): Seq[ChosenFiles] = batches.grouped(size).map { some =>
    val choice = ScanChoice(some.map(_.partitions.toLong).sum, some.map(_.files.toLong).sum,
      some.map(batch => batch.totals(0, batch.files)._1).sum)
    new ChosenFiles(some, choice, rows = None)
  }.toSeq

  /** The files that `choose` accepts. */
  def filtered(choose: FileChoice): ChosenFiles = {
    val builder = new ChosenFilesBuilder(choose)
    partitions.foreach(builder.copy)
    builder.result(choice.skippedFiles)
  }
}

/** Collects the files that `choose` accepts; they arrive partition by partition. */
private[catalogext] class ChosenFilesBuilder(choose: FileChoice) {
  private val batches = ArrayBuffer.empty[FileBatch]
  private var open = new FileBatch
  private var choice = ScanChoice(0, 0, 0)
  private var rows: Option[Long] = Some(0)

  /** The batch to which the files of the next partition are added, until `end` is called. */
  def batch: FileBatch = open

  /** Ends the last partition of the batch, after all its files were added: files that `choose` rejects are removed. */
  def end(): Unit = {
    val partition = open.partition(open.partitions - 1)
    if (choose.leaves(partition)) {
      choice = ScanChoice(choice.partitions + 1, choice.files + partition.count, choice.bytes + partition.bytes)
      rows = rows.flatMap(sum => partition.rows.map(sum + _))
    } else open.removeLast()
    if (open.files >= ChosenFilesBuilder.FilesOfBatch) close()
  }

  def copy(partition: DirectoryFiles): Unit = {
    open.begin(partition.name, partition.location)
    for (file <- 0 until partition.count) {
      open.add(partition.path(file), partition.size(file), partition.modifiedMs(file), partition.rowCount(file))
    }
    end()
  }

  private def close(): Unit = {
    open.trim()
    batches += open
    open = new FileBatch
  }

  /**
   * All files that were added and accepted.
   *
   * @param skipped number of files that the caller has already skipped
   */
  def result(skipped: Long = 0): ChosenFiles = {
    if (open.files > 0) close()
    new ChosenFiles(batches.toSeq, choice.copy(skippedFiles = skipped), rows)
  }
}

private object ChosenFilesBuilder {
  // With more files per batch, its arrays would be large objects, which slow down the garbage collector.
  val FilesOfBatch = 8192
}

/**
 * What all references to one table in a statement share, so that files are requested once. It exists as long as one of
 * the references exists.
 */
class SharedFiles {
  /** Prefix of the ids under which the service knows the statements that read the table. */
  val statement: String = UUID.randomUUID().toString

  private val known = mutable.HashMap.empty[Any, WeakReference[HeldFiles]]

  /**
   * The shared files for one way of reading the table; `way` has the columns, filters and options, and is compared with
   * equals().
   */
  private[catalogext] def of(way: Any): HeldFiles = synchronized {
    known.get(way).flatMap(held => Option(held.get)).getOrElse {
      val held = new HeldFiles
      known.filterInPlace((_, other) => other.get != null)
      known(way) = new WeakReference(held)
      held
    }
  }
}

/**
 * Files that the first caller requests for all callers with the same way of reading. Callers with another way of
 * reading do not wait for this request.
 */
private[catalogext] class HeldFiles {
  private var known: Option[ChosenFiles] = None

  /**
   * The shared files, requested by `fetch` of the first caller. Each caller passes a function of its own, so that no
   * thread waits for a lock of another caller's index.
   */
  def files(fetch: => ChosenFiles): ChosenFiles = synchronized {
    if (known.isEmpty) known = Some(fetch)
    known.get
  }
}
