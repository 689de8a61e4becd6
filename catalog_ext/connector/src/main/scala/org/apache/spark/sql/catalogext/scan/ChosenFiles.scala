package org.apache.spark.sql.catalogext.scan

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/**
 * The files of a scan. The driver keeps these batches, and no other object whose size grows with the number of files.
 *
 * @param choice their totals
 * @param rows sum of the row counts; None if one count is unknown
 */
private[catalogext] class ChosenFiles(val batches: Seq[FileBatch], val choice: ScanChoice, val rows: Option[Long]) {
  /** The files of each partition in turn. */
  def partitions: Iterator[DirectoryFiles] =
    batches.iterator.flatMap(batch => (0 until batch.partitions).iterator.map(batch.partition))

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

  /** Ends the last partition of the batch: all its files were added. */
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

  /** @param skipped number of files that the caller has already skipped */
  def result(skipped: Long = 0): ChosenFiles = {
    if (open.files > 0) close()
    new ChosenFiles(batches.toSeq, choice.copy(skippedFiles = skipped), rows)
  }
}

private object ChosenFilesBuilder {
  // With more files, the arrays of a batch would be large objects for the garbage collector.
  val FilesOfBatch = 8192
}

/** State that all references to one table in a statement share, as long as one of them exists. */
class SharedFiles {
  /** Prefix of the ids under which the service knows the statements that read the table. */
  val statement: String = UUID.randomUUID().toString

  private val known = mutable.HashMap.empty[Any, WeakReference[HeldFiles]]

  /** The files for one way of reading (columns, filters, options), given as a key. */
  private[catalogext] def of(way: Any): HeldFiles = synchronized {
    known.get(way).flatMap(held => Option(held.get)).getOrElse {
      val held = new HeldFiles
      known.filterInPlace((_, other) => other.get != null)
      known(way) = new WeakReference(held)
      held
    }
  }
}

/** Files that the first caller fetches for all. A caller with another way of reading does not wait. */
private[catalogext] class HeldFiles {
  private var known: Option[ChosenFiles] = None

  /** The files. `fetch` is the caller's own function, so that no thread waits for a lock of another index. */
  def files(fetch: => ChosenFiles): ChosenFiles = synchronized {
    if (known.isEmpty) known = Some(fetch)
    known.get
  }
}
