package org.apache.spark.sql.catalogext.scan

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.arrow.vector.VarCharVector
import org.apache.hadoop.fs.{FileStatus, Path}

/** A column of strings, stored one after the other in a single byte array. */
private[scan] class TextColumn extends Serializable {
  private var bytes = new Array[Byte](256)
  private var ends = new Array[Int](16)
  var length = 0

  def apply(i: Int): String = new String(bytes, start(i), ends(i) - start(i), UTF_8)

  private def start(i: Int): Int = if (i == 0) 0 else ends(i - 1)

  def add(text: String): Unit = {
    val encoded = text.getBytes(UTF_8)
    append(encoded.length)(System.arraycopy(encoded, 0, bytes, _, encoded.length))
  }

  def add(vector: VarCharVector, row: Int): Unit = {
    val from = vector.getStartOffset(row)
    val count = (vector.getEndOffset(row) - from).toInt
    append(count)(vector.getDataBuffer.getBytes(from, bytes, _, count))
  }

  private def append(count: Int)(write: Int => Unit): Unit = {
    val at = start(length)
    if (length == ends.length) ends = Arrays.copyOf(ends, length * 2)
    if (at + count > bytes.length) bytes = Arrays.copyOf(bytes, math.max(at + count, bytes.length * 2))
    write(at)
    ends(length) = at + count
    length += 1
  }

  /** Moves the string `from` to the position `to`, which is not behind it; the strings in between are lost. */
  def move(from: Int, to: Int): Unit = {
    val count = ends(from) - start(from)
    System.arraycopy(bytes, start(from), bytes, start(to), count)
    ends(to) = start(to) + count
  }

  def trim(): Unit = {
    bytes = Arrays.copyOf(bytes, start(length))
    ends = Arrays.copyOf(ends, length)
  }
}

/**
 * Files of complete partitions in columnar form, partition by partition. The driver keeps millions of files in such
 * batches; one object for each file would exhaust its memory.
 */
private[catalogext] class FileBatch extends Serializable {
  private[scan] val names = new TextColumn
  /** The directories of the partitions; the empty string for a partition in its default directory. */
  private[scan] val locations = new TextColumn
  private[scan] val paths = new TextColumn
  private var firsts = new Array[Int](16)
  private var sizes, times, counts = new Array[Long](16)

  def files: Int = paths.length
  def partitions: Int = names.length

  /** Starts the next partition. */
  def begin(name: String, location: Option[String]): Unit = begin {
    names.add(name)
    locations.add(location.getOrElse(""))
  }

  private[scan] def begin(add: => Unit): Unit = {
    if (partitions == firsts.length) firsts = Arrays.copyOf(firsts, partitions * 2)
    firsts(partitions) = files
    add
  }

  /** Adds a file to the last partition; `rows` is negative if it is unknown. */
  def add(path: String, size: Long, modifiedMs: Long, rows: Long): Unit = add(size, modifiedMs, rows)(paths.add(path))

  private[scan] def add(size: Long, modifiedMs: Long, rows: Long)(path: => Unit): Unit = {
    val at = files
    if (at == sizes.length) resize(at * 2)
    sizes(at) = size
    times(at) = modifiedMs
    counts(at) = rows
    path
  }

  private def resize(count: Int): Unit = {
    sizes = Arrays.copyOf(sizes, count)
    times = Arrays.copyOf(times, count)
    counts = Arrays.copyOf(counts, count)
  }

  /** Releases memory that was reserved for more files. */
  def trim(): Unit = {
    Seq(names, locations, paths).foreach(_.trim())
    firsts = Arrays.copyOf(firsts, partitions)
    resize(files)
  }

  def size(file: Int): Long = sizes(file)
  def modifiedMs(file: Int): Long = times(file)
  /** The row count of a file; negative if it is unknown. */
  def rowCount(file: Int): Long = counts(file)
  def firstOf(partition: Int): Int = if (partition == partitions) files else firsts(partition)

  def partition(number: Int): DirectoryFiles = new DirectoryFiles(this, number)

  def partitionOf(file: Int): DirectoryFiles = {
    val found = Arrays.binarySearch(firsts, 0, partitions, file)
    partition(if (found < 0) -found - 2 else found)
  }

  /**
   * The sums of bytes and rows of the files from `from` until `until`. The number of rows is negative if the row count
   * of any file is unknown.
   */
  private[scan] def totals(from: Int, until: Int): (Long, Long) = {
    var (bytes, rows, file) = (0L, 0L, from)
    while (file < until) {
      bytes += sizes(file)
      rows = if (rows < 0 || counts(file) < 0) -1 else rows + counts(file)
      file += 1
    }
    (bytes, rows)
  }

  /** Whether the files of a partition are sorted by size, largest first. */
  private[scan] def isOrdered(partition: Int): Boolean = {
    var file = firstOf(partition) + 1
    while (file < firstOf(partition + 1) && sizes(file) <= sizes(file - 1)) file += 1
    file >= firstOf(partition + 1)
  }

  /** Keeps only those files of the last partition for which `keep` is true. */
  private[scan] def retain(keep: Int => Boolean): Unit = {
    val first = firsts(partitions - 1)
    val kept = (first until files).filter(keep)
    for ((from, i) <- kept.zipWithIndex; to = first + i if from != to) {
      paths.move(from, to)
      Seq(sizes, times, counts).foreach(column => column(to) = column(from))
    }
    paths.length = first + kept.length
  }

  private[scan] def removeLast(): Unit = {
    paths.length = firsts(partitions - 1)
    names.length -= 1
    locations.length -= 1
  }
}

/** The files of one partition, numbered from 0. */
private[catalogext] class DirectoryFiles(val batch: FileBatch, val number: Int) {
  private val first = batch.firstOf(number)

  lazy val name: String = batch.names(number)
  /** The partition's directory; None for the default directory below the table's location. */
  def location: Option[String] = Some(batch.locations(number)).filter(_.nonEmpty)
  /** The partition's directory in any case; `table` is the table's location. */
  def directory(table: String): String = location.getOrElse(FilePaths.join(table, name))

  def count: Int = batch.firstOf(number + 1) - first
  def path(file: Int): String = batch.paths(first + file)
  def size(file: Int): Long = batch.size(first + file)
  def modifiedMs(file: Int): Long = batch.modifiedMs(first + file)
  /** The row count of the partition's file with this number; negative if it is unknown. */
  def rowCount(file: Int): Long = batch.rowCount(first + file)

  def bytes: Long = batch.totals(first, first + count)._1
  /** The sum of the row counts of all files of the partition; None if one of them is unknown. */
  def rows: Option[Long] = Some(batch.totals(first, first + count)._2).filter(_ >= 0)

  def status(file: Int, directory: String): FileStatus =
    FilePaths.status(directory, path(file), size(file), modifiedMs(file))

  /** Keeps only files for which `keep` is true. The partition must be the last one of its batch. */
  def retain(keep: Int => Boolean): Unit = batch.retain(file => keep(file - first))
}

private[catalogext] object FilePaths {
  // The file objects have no block size: Spark splits files by their length, and asks a LocatedFileStatus for block
  // locations.
  private val NoBlockSize = 0L

  def join(parent: String, child: String): String =
    if (child.isEmpty) parent else if (parent.endsWith("/")) parent + child else s"$parent/$child"

  /** The file's status for Spark. `path` is not percent-encoded, as Hadoop's Path(String) expects. */
  def status(directory: String, path: String, size: Long, modifiedMs: Long): FileStatus =
    new FileStatus(size, false, 1, NoBlockSize, modifiedMs, new Path(join(directory, path)))

  /**
   * The path as Spark shows it in `_metadata.file_path`, so that both can be joined. The URI of a `Path` can begin with
   * `file:///`, as its text did; the column's begins with `file:/`.
   */
  def inMetadataColumn(path: Path): String = new Path(path.toString).toUri.toString
}
