package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer

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
 * The files that one task reads, as ranges of the driver's batches. With the task goes a batch of these files alone.
 *
 * @param hosts those that have most of the bytes
 */
private[catalogext] class FileShare(override val index: Int, val ranges: Seq[PartRange], hosts: Array[String])
  extends InputPartition with Partition {

  override def preferredLocations(): Array[String] = hosts

  private def writeReplace(): AnyRef = new FileShare(index, Seq(PartRange.joined(ranges)), Array.empty)
}

/** The same of one partition, by the values of the keys that a scan reads: Spark joins and groups by them without a shuffle. */
private[catalogext] case class KeyedFilePartition(files: FileShare, override val partitionKey: InternalRow)
  extends HasPartitionKey {

  override def preferredLocations(): Array[String] = files.preferredLocations()
}

/** A part of a file, which is numbered within its batch. */
private[scan] case class ReadPart(file: Int, start: Long, length: Long)

/** The parts of a batch's files; `split` is null where these are the whole files, in their order. */
private[scan] class FileParts(val batch: FileBatch, split: Array[ReadPart] = null) extends Serializable {
  def count: Int = if (split == null) batch.files else split.length
  def apply(i: Int): ReadPart = if (split == null) ReadPart(i, 0, batch.size(i)) else split(i)
  def file(i: Int): Int = if (split == null) i else split(i).file
  def length(i: Int): Long = if (split == null) batch.size(i) else split(i).length
}

/** Parts of one batch that follow each other. */
private[scan] case class PartRange(parts: FileParts, from: Int, until: Int) {
  def all: Iterator[ReadPart] = (from until until).iterator.map(parts(_))
}

private[scan] object PartRange {
  /** The parts of several ranges as one of a batch of their files alone. */
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
    PartRange(new FileParts(batch, parts.toArray), 0, parts.length)
  }
}

/**
 * Spreads files over tasks by the rules and settings of Spark's own `FileScan` and `FilePartition`, which take an object
 * for each file: the parts of a directory's files by size, the largest first, each into the open partition if it fits.
 *
 * @param maxSplitBytes the largest part of a file that can be read in parts, and what a partition holds
 * @param openCost what opening a file counts for, in bytes
 * @param mostPartitions the number of partitions above which they become larger
 */
case class FilePacking(maxSplitBytes: Long, openCost: Long, mostPartitions: Option[Int]) extends Logging {

  /** @param key of each directory, where no task is to read two of them; otherwise None */
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

  /** In the order in which Spark spreads them: directory by directory, the largest first. */
  private def parts(batch: FileBatch, isSplitable: Path => Boolean, table: String): FileParts = {
    def size(file: Int) = batch.size(file)
    // Of a file that can be split and is empty Spark makes no part.
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
    // Stable, as Spark's own sort.
    def all = (0 until batch.partitions).flatMap(ofPartition(_).flatMap(split).sortBy(-_.length))
    new FileParts(batch, if (areWhole) null else all.toArray)
  }

  /** What a partition holds so that there are not more than `most`, by Spark's estimate. */
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

  /** Says where one partition ends and the next begins. */
  private class NextFit(limit: Long) {
    private var size = 0L
    private var isEmpty = true

    /** Whether the open partition is full before a part of this length, which then begins the next one. */
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
  /** By the session's settings, for files that come to `choice`. */
  def of(spark: SparkSession, choice: ScanChoice): FilePacking = {
    val conf = spark.sessionState.conf
    val openCost = conf.filesOpenCostInBytes
    // It may come to nothing where opening a file counts for nothing, and a file cannot be read in parts of nothing.
    val maxSplitBytes = math.max(FilePartition.maxSplitBytes(spark, choice.bytes + choice.files * openCost), 1)
    FilePacking(maxSplitBytes, openCost, conf.filesMaxPartitionNum)
  }
}

/**
 * Makes Spark's objects of files, with the values of the columns that a scan reads of each.
 *
 * @param keys the partition columns, with the table's own types
 * @param zone the zone that TIMESTAMP keys are local in
 * @param lengths of the keys, by their place, whose texts are padded with blanks
 * @param fileColumns the columns behind the keys that say which file a row comes from
 * @param read the places, among keys and file columns, of those that the scan reads
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
