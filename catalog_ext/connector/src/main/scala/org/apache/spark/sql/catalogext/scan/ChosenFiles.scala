package org.apache.spark.sql.catalogext.scan

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/**
 * The files of a scan: the driver holds these batches, and nothing else that grows with the number of files.
 *
 * @param choice what they come to
 * @param rows of all files; nothing where one is unknown
 */
private[catalogext] class ChosenFiles(val batches: Seq[FileBatch], val choice: ScanChoice, val rows: Option[Long]) {
  /** Partition by partition. */
  def partitions: Iterator[DirectoryFiles] =
    batches.iterator.flatMap(batch => (0 until batch.partitions).iterator.map(batch.partition))

  /** Those that `choose` leaves. */
  def filtered(choose: FileChoice): ChosenFiles = {
    val builder = new ChosenFilesBuilder(choose)
    partitions.foreach(builder.copy)
    builder.result(choice.skippedFiles)
  }
}

/** Gathers what `choose` leaves of partitions, which come one after the other. */
private[catalogext] class ChosenFilesBuilder(choose: FileChoice) {
  private val batches = ArrayBuffer.empty[FileBatch]
  private var open = new FileBatch
  private var choice = ScanChoice(0, 0, 0)
  private var rows: Option[Long] = Some(0)

  /** The batch that the files of the next partition are added to, until `end`. */
  def batch: FileBatch = open

  /** The last partition of the batch has all its files. */
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

  /** @param skipped how many files the caller left out */
  def result(skipped: Long = 0): ChosenFiles = {
    if (open.files > 0) close()
    new ChosenFiles(batches.toSeq, choice.copy(skippedFiles = skipped), rows)
  }
}

private object ChosenFilesBuilder {
  // Arrays of much more would be among the collector's large objects.
  val FilesOfBatch = 8192
}

/** What the references of a statement to one table hold together, for as long as one of them does. */
class SharedFiles {
  /** Begins the names by which the service knows the statements that read the table. */
  val statement: String = UUID.randomUUID().toString

  private val known = mutable.HashMap.empty[Any, WeakReference[HeldFiles]]

  /** The place of the files that are asked for in this way. */
  private[catalogext] def of(way: Any): HeldFiles = synchronized {
    known.get(way).flatMap(held => Option(held.get)).getOrElse {
      val held = new HeldFiles
      known.filterInPlace((_, other) => other.get != null)
      known(way) = new WeakReference(held)
      held
    }
  }
}

/** Files that the first who wants them asks for; who reads in another way does not wait for that. */
private[catalogext] class HeldFiles {
  private var known: Option[ChosenFiles] = None

  /** The files; `fetch` is the caller's own, so that no thread ever waits for what another index has locked. */
  def files(fetch: => ChosenFiles): ChosenFiles = synchronized {
    if (known.isEmpty) known = Some(fetch)
    known.get
  }
}
