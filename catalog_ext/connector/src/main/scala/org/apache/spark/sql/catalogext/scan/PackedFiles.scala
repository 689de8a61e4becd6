package org.apache.spark.sql.catalogext.scan

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.connector.read.InputPartition

/**
 * Files of a scan in some ten bytes each and what their names do not share with the file before: the driver holds these,
 * and nothing else that grows with the number of files.
 *
 * @param choice what they come to
 * @param rows of all files; nothing where one is unknown
 */
private[catalogext] class PackedFiles(
    chunks: IndexedSeq[Array[Byte]],
    val choice: ScanChoice,
    val rows: Option[Long]) {

  /** Gives each partition with its files to `use`, in one object that the next partition uses again. */
  def foreachDirectory(use: DirectoryFiles => Unit): Unit = {
    val directory = new DirectoryFiles
    chunks.foreach { chunk =>
      val input = new FileInput(chunk)
      var begun = false
      while (input.next()) {
        if (input.isNewDirectory) {
          if (begun) use(directory)
          begun = true
          input.begin(directory)
        }
        directory.add(input.path, input.size, input.modifiedMs, rows = -1)
      }
      if (begun) use(directory)
    }
  }

  /** The names of the partitions. */
  def names: Seq[String] = {
    val found = ArrayBuffer.empty[String]
    foreachDirectory(directory => found += directory.name.toString)
    found.toSeq
  }

  /** Those that `choose` leaves. */
  def filtered(choose: FileChoice): PackedFiles = {
    val builder = new PackedFilesBuilder(choose)
    foreachDirectory(builder.add)
    builder.result(choice.skippedFiles)
  }

  def heldBytes: Long = chunks.iterator.map(_.length.toLong).sum

  // Two references to a table are planned alike; each kind of reading is kept once.
  private var planned: Option[(Any, Array[InputPartition])] = None

  /** The input partitions that `plan` makes of these files, made once for as long as `how` is the same. */
  def partitions(how: Any)(plan: => Array[InputPartition]): Array[InputPartition] = synchronized {
    if (!planned.exists(_._1 == how)) planned = Some(how -> plan)
    planned.get._2
  }
}

/** Packs what `choose` leaves of the partitions that are added. */
private[catalogext] class PackedFilesBuilder(choose: FileChoice) {
  private val chunks = ArrayBuffer.empty[Array[Byte]]
  private val output = new FileOutput
  private var choice = ScanChoice(0, 0, 0)
  private var rows: Option[Long] = Some(0)

  def add(directory: DirectoryFiles): Unit = if (choose.leaves(directory)) {
    output.nextDirectory()
    var file = 0
    while (file < directory.count) {
      output.add(directory, file, 0, directory.size(file))
      file += 1
    }
    choice = ScanChoice(choice.partitions + 1, choice.files + directory.count, choice.bytes + directory.bytes)
    rows = rows.flatMap(sum => directory.rows.map(sum + _))
    if (output.size > PackedFilesBuilder.ChunkBytes) chunks += output.take()
  }

  /** @param skipped how many files the caller left out */
  def result(skipped: Long = 0): PackedFiles = {
    if (output.size > 0) chunks += output.take()
    new PackedFiles(chunks.toVector, choice.copy(skippedFiles = skipped), rows)
  }
}

private object PackedFilesBuilder {
  // An array that is much larger would be one of the collector's large objects.
  val ChunkBytes = 256 * 1024
}

/**
 * Writes files one after the other. A file is a number (whether it begins a directory, which may lie elsewhere, and whether
 * it is a part of a file), for the first of a directory the partition's name and the directory's place, its path in there,
 * size and time; each text as far as it differs from the last one of its kind, the time as the difference to the last one.
 */
private[scan] class FileOutput {
  import FileOutput._

  private var bytes = new Array[Byte](1024)
  private var used = 0
  private var inDirectory = false
  private val lastName = new TextBuffer
  private val lastLocation = new TextBuffer
  private val lastPath = new TextBuffer
  private var lastTime = 0L

  def size: Int = used

  /** The next file lies in another directory than the last one. */
  def nextDirectory(): Unit = inDirectory = false

  /** Adds `length` bytes from `start` on of a file. */
  def add(directory: DirectoryFiles, file: Int, start: Long, length: Long): Unit = {
    val isPart = start != 0 || length != directory.size(file)
    val begins = if (inDirectory) 0 else if (directory.isElsewhere) Begins | Elsewhere else Begins
    number(begins | (if (isPart) Part else 0))
    if (!inDirectory) begin(directory)
    text(lastPath, directory.paths, directory.pathStart(file), directory.pathLength(file))
    number(directory.size(file))
    val difference = directory.modifiedMs(file) - lastTime
    number((difference << 1) ^ (difference >> 63))
    lastTime = directory.modifiedMs(file)
    if (isPart) {
      number(start)
      number(length)
    }
  }

  private def begin(directory: DirectoryFiles): Unit = {
    text(lastName, directory.name.bytes, 0, directory.name.length)
    if (directory.isElsewhere) text(lastLocation, directory.location.bytes, 0, directory.location.length)
    inDirectory = true
  }

  /** What was written; the next file begins anew. */
  def take(): Array[Byte] = {
    val written = Arrays.copyOf(bytes, used)
    used = 0
    inDirectory = false
    lastName.set("")
    lastLocation.set("")
    lastPath.set("")
    lastTime = 0
    written
  }

  private def text(last: TextBuffer, source: Array[Byte], from: Int, count: Int): Unit = {
    val shared = last.shared(source, from, count)
    number(shared)
    number(count - shared)
    append(source, from + shared, count - shared)
    last.put(shared, source, from + shared, count - shared)
  }

  /** Seven bits a byte, the lowest first; a negative number has ten bytes. */
  private def number(value: Long): Unit = {
    reserve(10)
    var rest = value
    while ((rest & ~0x7FL) != 0) {
      bytes(used) = ((rest & 0x7F) | 0x80).toByte
      used += 1
      rest >>>= 7
    }
    bytes(used) = rest.toByte
    used += 1
  }

  private def append(source: Array[Byte], from: Int, count: Int): Unit = {
    reserve(count)
    System.arraycopy(source, from, bytes, used, count)
    used += count
  }

  private def reserve(count: Int): Unit =
    if (used + count > bytes.length) bytes = Arrays.copyOf(bytes, math.max(used + count, bytes.length * 2))
}

private[scan] object FileOutput {
  val Begins = 1
  val Part = 2
  val Elsewhere = 4
}

/** Reads what a FileOutput has written, file by file. */
private[scan] class FileInput(packed: Array[Byte]) {
  private var at = 0
  private var kind = 0L
  val name = new TextBuffer
  val location = new TextBuffer
  val path = new TextBuffer
  var isElsewhere = false
  var size = 0L
  var modifiedMs = 0L
  var start = 0L
  var length = 0L

  /** Whether there is another file, which is read. */
  def next(): Boolean = at < packed.length && {
    kind = number()
    if (isNewDirectory) {
      text(name)
      isElsewhere = (kind & FileOutput.Elsewhere) != 0
      if (isElsewhere) text(location)
    }
    text(path)
    size = number()
    val difference = number()
    modifiedMs += (difference >>> 1) ^ -(difference & 1)
    val isPart = (kind & FileOutput.Part) != 0
    start = if (isPart) number() else 0
    length = if (isPart) number() else size
    true
  }

  def isNewDirectory: Boolean = (kind & FileOutput.Begins) != 0

  /** Makes `directory` the one that this file begins. */
  def begin(directory: DirectoryFiles): Unit = {
    directory.name.put(0, name.bytes, 0, name.length)
    directory.isElsewhere = isElsewhere
    if (isElsewhere) directory.location.put(0, location.bytes, 0, location.length)
    directory.begin()
  }

  private def text(last: TextBuffer): Unit = {
    val shared = number().toInt
    val count = number().toInt
    last.put(shared, packed, at, count)
    at += count
  }

  private def number(): Long = {
    var value = 0L
    var shift = 0
    var byte = 0
    while ({
      byte = packed(at)
      at += 1
      value |= (byte & 0x7FL) << shift
      shift += 7
      byte < 0
    }) ()
    value
  }
}
