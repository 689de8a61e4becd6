package org.apache.spark.sql.catalogext.scan

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.arrow.vector.VarCharVector
import org.apache.hadoop.fs.{FileStatus, Path}

/** Text in an array that the next text uses again. */
private[catalogext] class TextBuffer {
  private[scan] var bytes = new Array[Byte](64)
  private[scan] var length = 0

  def set(text: String): Unit = {
    val encoded = text.getBytes(UTF_8)
    put(0, encoded, 0, encoded.length)
  }

  def set(vector: VarCharVector, row: Int): Unit = {
    val start = vector.getStartOffset(row)
    length = (vector.getEndOffset(row) - start).toInt
    grow(length, kept = 0)
    vector.getDataBuffer.getBytes(start, bytes, 0, length)
  }

  /** Keeps the first `kept` bytes, and `count` bytes of `source` follow them. */
  private[scan] def put(kept: Int, source: Array[Byte], from: Int, count: Int): Unit = {
    grow(kept + count, kept)
    System.arraycopy(source, from, bytes, kept, count)
    length = kept + count
  }

  /** How many bytes the text has at its beginning in common with this one. */
  private[scan] def shared(source: Array[Byte], from: Int, count: Int): Int = {
    val differs = Arrays.mismatch(bytes, 0, length, source, from, from + count)
    if (differs < 0) length else differs
  }

  private def grow(size: Int, kept: Int): Unit = if (size > bytes.length) {
    val larger = new Array[Byte](math.max(size, bytes.length * 2))
    System.arraycopy(bytes, 0, larger, 0, kept)
    bytes = larger
  }

  override def toString: String = new String(bytes, 0, length, UTF_8)
}

/**
 * The files of one partition as the index has them, in arrays that the next partition uses again: a scan may have
 * millions, and an object for each would fill the driver.
 */
private[catalogext] class DirectoryFiles {
  /** The partition's. */
  val name = new TextBuffer
  /** Of the partition's directory, unless that is at the table's location. */
  val location = new TextBuffer
  var isElsewhere = false
  private[scan] var paths = new Array[Byte](256)
  private var ends = new Array[Int](8)
  private var sizes = new Array[Long](8)
  private var times = new Array[Long](8)
  private var counts = new Array[Long](8)
  private var files = 0
  private var counted = 0L

  /** Begins the next partition, whose name and place the caller has set. */
  def begin(): Unit = {
    files = 0
    counted = 0
  }

  /** Adds a file; `rows` is negative where it is unknown. */
  def add(path: TextBuffer, size: Long, modifiedMs: Long, rows: Long): Unit = {
    reserve(path.length)
    System.arraycopy(path.bytes, 0, paths, pathStart(files), path.length)
    ends(files) = pathStart(files) + path.length
    sizes(files) = size
    times(files) = modifiedMs
    counts(files) = rows
    files += 1
    counted = if (counted < 0 || rows < 0) -1 else counted + rows
  }

  private def reserve(length: Int): Unit = {
    if (files == ends.length) {
      ends = Arrays.copyOf(ends, files * 2)
      sizes = Arrays.copyOf(sizes, files * 2)
      times = Arrays.copyOf(times, files * 2)
      counts = Arrays.copyOf(counts, files * 2)
    }
    val needed = pathStart(files) + length
    if (needed > paths.length) paths = Arrays.copyOf(paths, math.max(needed, paths.length * 2))
  }

  def count: Int = files
  /** Of all files; nothing where one is unknown. */
  def rows: Option[Long] = Option.when(counted >= 0)(counted)
  def size(file: Int): Long = sizes(file)
  def modifiedMs(file: Int): Long = times(file)
  /** Negative where it is unknown. */
  def rowCount(file: Int): Long = counts(file)
  def path(file: Int): String = new String(paths, pathStart(file), pathLength(file), UTF_8)
  private[scan] def pathStart(file: Int): Int = if (file == 0) 0 else ends(file - 1)
  private[scan] def pathLength(file: Int): Int = ends(file) - pathStart(file)

  def bytes: Long = {
    var sum = 0L
    var file = 0
    while (file < files) {
      sum += sizes(file)
      file += 1
    }
    sum
  }

  /** Leaves only files for which `keep` holds; their row count is unknown. */
  def retain(keep: Int => Boolean): Unit = {
    val kept = Array.tabulate(files)(keep)
    var start = 0
    files = 0
    for (file <- kept.indices) {
      val end = ends(file)
      if (kept(file)) {
        System.arraycopy(paths, start, paths, pathStart(files), end - start)
        ends(files) = pathStart(files) + end - start
        sizes(files) = sizes(file)
        times(files) = times(file)
        counts(files) = counts(file)
        files += 1
      }
      start = end
    }
    if (files < kept.length) counted = -1
  }

  /** The directory; `table` is the table's location. */
  def directory(table: String): String =
    if (isElsewhere) location.toString else DirectoryFiles.join(table, name.toString)

  /** Its path is text as on the store, never percent-encoded: what Hadoop's Path(String) takes. */
  def status(file: Int, directory: String): FileStatus = new FileStatus(
    size(file), false, 1, DirectoryFiles.NoBlockSize, modifiedMs(file), new Path(DirectoryFiles.join(directory, path(file))))
}

private[catalogext] object DirectoryFiles {
  // Spark splits by size alone; only a LocatedFileStatus gives it the blocks.
  private val NoBlockSize = 0L

  def join(parent: String, child: String): String =
    if (child.isEmpty) parent else if (parent.endsWith("/")) parent + child else s"$parent/$child"
}
