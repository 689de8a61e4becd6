package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.{ArrayBuffer, ArrayBuilder}

import org.apache.hadoop.fs.Path

import org.apache.spark.Partition
import org.apache.spark.internal.Logging
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.read.{HasPartitionKey, InputPartition}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * The files of one task, as ranges of the driver's batches. Only these files are serialized with the task.
 *
 * @param hosts the hosts that store most of the files' bytes
 */
private[catalogext] class FileShare(override val index: Int, val ranges: Seq[PartRange], hosts: Array[String])
  extends InputPartition with Partition {

  override def preferredLocations(): Array[String] = hosts

  private def writeReplace(): AnyRef = new FileShare(index, Seq(PartRange.joined(ranges)), Array.empty)
}

/** The files of one partition, with the values of the read keys: Spark joins and groups by them without a shuffle. */
private[catalogext] case class KeyedFilePartition(files: FileShare, override val partitionKey: InternalRow)
  extends HasPartitionKey {

  override def preferredLocations(): Array[String] = files.preferredLocations()
}

/** A part of a file; `file` is the file's number in its batch. */
private[scan] case class ReadPart(file: Int, start: Long, length: Long)

/**
 * The parts of a batch's files, in columns: the driver keeps them as long as the plan, so no part has an object of its
 * own.
 *
 * @param files the number of each part's file; null if part i belongs to file i
 * @param starts the first byte of each part; null if all parts are whole files
 * @param lengths the length of each part; null if all parts are whole files
 */
private[scan] class FileParts private (
    val batch: FileBatch, files: Array[Int], starts: Array[Long], lengths: Array[Long]) extends Serializable {

  def count: Int = if (files != null) files.length else if (starts != null) starts.length else batch.files
  def apply(i: Int): ReadPart = ReadPart(file(i), if (starts == null) 0 else starts(i), length(i))
  def file(i: Int): Int = if (files == null) i else files(i)
  def length(i: Int): Long = if (lengths == null) batch.size(file(i)) else lengths(i)
}

private[scan] object FileParts {
  /** The whole files of a batch, in order. */
  def whole(batch: FileBatch): FileParts = new FileParts(batch, null, null, null)

  /** The given parts of a batch's files. */
  def of(batch: FileBatch, parts: Iterator[ReadPart]): FileParts = {
    val files = new ArrayBuilder.ofInt
    val starts, lengths = new ArrayBuilder.ofLong
    var (count, areInOrder, areWhole) = (0, true, true)
    parts.foreach { part =>
      files += part.file
      starts += part.start
      lengths += part.length
      areInOrder &&= part.file == count
      areWhole &&= part.length == batch.size(part.file)
      count += 1
    }
    new FileParts(
      batch,
      if (areInOrder && count == batch.files) null else files.result(),
      if (areWhole) null else starts.result(),
      if (areWhole) null else lengths.result())
  }
}

/** A range of consecutive parts of one batch. */
private[scan] case class PartRange(parts: FileParts, from: Int, until: Int) {
  def all: Iterator[ReadPart] = (from until until).iterator.map(parts(_))
}

private[scan] object PartRange {
  /** The parts of several ranges, as one range of a new batch with their files only. */
  def joined(ranges: Seq[PartRange]): PartRange = {
    val batch = new FileBatch
    val parts = ArrayBuffer.empty[ReadPart]
    for (range <- ranges; of = range.parts.batch) {
      var partition = -1
      range.all.foreach { part =>
        if (partition < 0 || part.file >= of.firstOf(partition + 1)) {
          partition = of.partitionOf(part.file).number
          batch.begin(of.names(partition), of.partition(partition).location)
        }
        batch.add(of.paths(part.file), of.size(part.file), of.modifiedMs(part.file), of.rowCount(part.file))
        parts += part.copy(file = batch.files - 1)
      }
    }
    batch.trim()
    PartRange(FileParts.of(batch, parts.iterator), 0, parts.length)
  }
}

/**
 * Distributes files over tasks by the rules and settings of Spark's `FileScan` and `FilePartition`, but without an
 * object that is kept for each file: the parts of a directory's files are sorted by size, the largest first, and each
 * is added to the open task if it fits.
 *
 * @param maxSplitBytes the maximum size of a file part and of a task
 * @param openCost the cost of opening a file, in bytes
 * @param mostPartitions the number of tasks above which tasks are made larger; None for no limit
 */
case class FilePacking(maxSplitBytes: Long, openCost: Long, mostPartitions: Option[Int]) extends Logging {

  /**
   * Distributes files over tasks.
   *
   * @param key returns the key of a directory, if no task may read files of two directories; otherwise None
   */
  private[catalogext] def pack(
      files: ChosenFiles,
      isSplitable: Path => Boolean,
      tableLocation: String,
      blocks: FileBlocks,
      key: Option[DirectoryFiles => InternalRow] = None): Array[InputPartition] = {
    val batches = files.batches.map(parts(_, isSplitable, tableLocation))
    val limit = if (key.isDefined) maxSplitBytes else mostPartitions.fold(maxSplitBytes)(most => limitFor(batches, most))
    val found = ArrayBuffer.empty[InputPartition]
    val ranges = ArrayBuffer.empty[PartRange]
    val hosts = blocks.ofPartition()
    var current: Option[InternalRow] = None
    def close(): Unit = if (ranges.nonEmpty) {
      val share = new FileShare(found.size, ranges.toSeq, hosts.take())
      found += current.fold[InputPartition](share)(KeyedFilePartition(share, _))
      ranges.clear()
    }
    var fit = new NextFit(limit)
    batches.foreach { parts =>
      var (from, partition, i) = (0, -1, 0)
      def cut(): Unit = {
        if (i > from) ranges += PartRange(parts, from, i)
        from = i
      }
      while (i < parts.count) {
        if (key.isDefined && (partition < 0 || parts.file(i) >= parts.batch.firstOf(partition + 1))) {
          cut()
          close()
          fit = new NextFit(limit)
          do partition += 1 while (parts.file(i) >= parts.batch.firstOf(partition + 1))
          current = key.map(_(parts.batch.partition(partition)))
        }
        if (fit.closes(parts.length(i))) {
          cut()
          close()
        }
        hosts.add(parts, i)
        i += 1
      }
      cut()
    }
    close()
    found.toArray
  }

  /**
   * The file parts of a batch, in the order in which Spark distributes them: directory by directory, the largest part
   * first.
   */
  private def parts(batch: FileBatch, isSplitable: Path => Boolean, table: String): FileParts = {
    def size(file: Int) = batch.size(file)
    // Spark creates no part for an empty file of a splittable format.
    def maySplit(file: Int) = (size(file) > maxSplitBytes || size(file) == 0) && {
      val partition = batch.partitionOf(file)
      isSplitable(new Path(FilePaths.join(partition.directory(table), batch.paths(file))))
    }
    def ofPartition(number: Int) = batch.firstOf(number) until batch.firstOf(number + 1)
    def split(file: Int): Seq[ReadPart] =
      if (maySplit(file)) (0L until size(file) by maxSplitBytes).map { start =>
        ReadPart(file, start, math.min(size(file) - start, maxSplitBytes))
      } else Seq(ReadPart(file, 0, size(file)))
    val areWhole = (0 until batch.partitions).forall(batch.isOrdered) && !(0 until batch.files).exists(maySplit)
    // sortBy is stable, as the sort in Spark is, so that equal sizes stay in the order of the files. Only the parts of
    // one partition are objects at a time.
    def all = (0 until batch.partitions).iterator.flatMap(ofPartition(_).flatMap(split).sortBy(-_.length))
    if (areWhole) FileParts.whole(batch) else FileParts.of(batch, all)
  }

  /** The task size at which there are at most `most` tasks, by Spark's estimate. */
  private def limitFor(batches: Seq[FileParts], most: Int): Long = {
    var partitions = 1
    var total = BigDecimal(0)
    val fit = new NextFit(maxSplitBytes)
    for (parts <- batches; i <- 0 until parts.count) {
      if (fit.closes(parts.length(i))) partitions += 1
      total += parts.length(i) + openCost
    }
    if (partitions <= most) maxSplitBytes
    else {
      val limit = (total / most).setScale(0, BigDecimal.RoundingMode.UP).toLong
      logWarning(s"The files come to $partitions partitions, above the ${SQLConf.FILES_MAX_PARTITION_NUM.key} of " +
        s"$most: a partition holds $limit bytes instead of $maxSplitBytes.")
      limit
    }
  }

  /** Decides where one task ends and the next one begins. */
  private class NextFit(limit: Long) {
    private var size = 0L
    private var isEmpty = true

    /** Whether the open task is full, so that a part of this length begins the next one. */
    def closes(length: Long): Boolean = {
      val full = size + length > limit
      val closed = full && !isEmpty
      size = (if (full) 0 else size) + length + openCost
      isEmpty = false
      closed
    }
  }
}

object FilePacking {
  /** The packing by the session's settings, for files with the totals `choice`. */
  def of(spark: SparkSession, choice: ScanChoice): FilePacking = {
    val conf = spark.sessionState.conf
    val openCost = conf.filesOpenCostInBytes
    // The result may be 0 if opening a file costs nothing. Use at least 1, because a file that cannot be split is not
    // read in parts of size 0.
    val maxSplitBytes = math.max(FilePartition.maxSplitBytes(spark, choice.bytes + choice.files * openCost), 1)
    FilePacking(maxSplitBytes, openCost, conf.filesMaxPartitionNum)
  }
}

/**
 * Creates Spark's file objects, with the values of the columns that a scan reads for each file.
 *
 * @param keys the partition columns, with the table's own types
 * @param zone the time zone of TIMESTAMP keys
 * @param lengths the lengths of CHAR keys whose values are padded with blanks, by position
 * @param fileColumns the hidden columns for a row's file, which follow the keys
 * @param read positions, among keys and file columns, of the columns that the scan reads
 */
private[catalogext] case class FileMaker(
    tableLocation: String,
    keys: StructType,
    zone: String,
    lengths: Map[Int, Int],
    fileColumns: StructType,
    read: Seq[Int]) {

  private val readsFileColumns = read.exists(_ >= keys.length)

  def files(share: FileShare): FilePartition = FilePartition(share.index, share.ranges.iterator.flatMap(files).toArray)

  private def files(range: PartRange): Iterator[PartitionedFile] = {
    val values = new PartitionValues(keys, zone, lengths)
    var end = 0
    var make: ReadPart => PartitionedFile = null
    range.all.map { part =>
      if (make == null || part.file >= end) {
        val partition = range.parts.batch.partitionOf(part.file)
        end = range.parts.batch.firstOf(partition.number + 1)
        make = ofPartition(partition, values)
      }
      make(part)
    }
  }

  private def ofPartition(partition: DirectoryFiles, values: PartitionValues): ReadPart => PartitionedFile = {
    val batch = partition.batch
    val directory = partition.directory(tableLocation)
    lazy val row = values.parse(partition.name).asInstanceOf[GenericInternalRow]
    val constants = Map[String, Any](PlannedFiles.PartitionNameKey -> partition.name)
    lazy val common = if (read.isEmpty) InternalRow.empty else projected(row)
    part => {
      val (size, modified) = (batch.size(part.file), batch.modifiedMs(part.file))
      val path = new Path(FilePaths.join(directory, batch.paths(part.file)))
      val own = if (readsFileColumns) projected(FileColumns.values(fileColumns, row, partition.name, path, size, modified))
      else common
      PartitionedFile(own, SparkPath.fromPath(path), part.start, part.length, Array.empty, modified, size, constants)
    }
  }

  private def projected(row: GenericInternalRow): InternalRow =
    new GenericInternalRow(read.map(row.values(_)).toArray)
}
