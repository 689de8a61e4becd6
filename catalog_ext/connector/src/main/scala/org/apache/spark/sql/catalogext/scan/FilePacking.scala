package org.apache.spark.sql.catalogext.scan

import java.util.{Arrays, Comparator}

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{HasPartitionKey, InputPartition}
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.internal.SQLConf

/** The files that one task reads, packed; `hosts` have most of their bytes. */
case class PackedFilePartition(index: Int, packed: Array[Byte], hosts: Array[String]) extends InputPartition {
  override def preferredLocations(): Array[String] = hosts
}

/** The same of one partition, by the values of the keys that a scan reads: Spark joins and groups by them without a shuffle. */
case class KeyedFilePartition(files: PackedFilePartition, override val partitionKey: InternalRow)
  extends HasPartitionKey {
  override def preferredLocations(): Array[String] = files.preferredLocations()
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
  def pack(
      files: PackedFiles,
      isSplitable: Path => Boolean,
      tableLocation: String,
      blocks: FileBlocks,
      key: Option[DirectoryFiles => InternalRow] = None): Array[InputPartition] = {
    val parts = new FileParts(files, maxSplitBytes, isSplitable, tableLocation)
    val limit = if (key.isDefined) maxSplitBytes else mostPartitions.fold(maxSplitBytes)(most => limitFor(parts, most))
    val found = ArrayBuffer.empty[InputPartition]
    val output = new FileOutput
    val hosts = blocks.ofPartition()
    var current: Option[InternalRow] = None
    def close(): Unit = {
      val files = PackedFilePartition(found.size, output.take(), hosts.take())
      found += current.fold[InputPartition](files)(KeyedFilePartition(files, _))
    }
    var fit = new NextFit(limit)
    parts.foreach { (directory, file, start, length, isFirst) =>
      if (isFirst && key.isDefined) {
        if (output.size > 0) close()
        fit = new NextFit(limit)
        current = key.map(_(directory))
      }
      if (fit.closes(length)) close()
      if (isFirst) output.nextDirectory()
      output.add(directory, file, start, length)
      hosts.add(directory, file, start, length)
    }
    if (output.size > 0) close()
    found.toArray
  }

  /** What a partition holds so that there are not more than `most`, by Spark's estimate. */
  private def limitFor(parts: FileParts, most: Int): Long = {
    var partitions = 1
    var total = BigDecimal(0)
    val fit = new NextFit(maxSplitBytes)
    parts.foreach { (_, _, _, length, _) =>
      if (fit.closes(length)) partitions += 1
      total += length + openCost
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

/** The parts of files in the order in which Spark spreads them: directory by directory, the largest first. */
private class FileParts(files: PackedFiles, maxSplitBytes: Long, isSplitable: Path => Boolean, tableLocation: String) {
  private var count = 0
  private var ofFile = new Array[Int](16)
  private var starts = new Array[Long](16)
  private var lengths = new Array[Long](16)

  /** Gives `use` each part: its directory, which file, where it starts, its length, whether it is the directory's first. */
  def foreach(use: (DirectoryFiles, Int, Long, Long, Boolean) => Unit): Unit = files.foreachDirectory { directory =>
    split(directory)
    val order = if (isOrdered) None else Some(bySize)
    var i = 0
    while (i < count) {
      val part = order.fold(i)(_(i))
      use(directory, ofFile(part), starts(part), lengths(part), i == 0)
      i += 1
    }
  }

  private def split(directory: DirectoryFiles): Unit = {
    count = 0
    var file = 0
    while (file < directory.count) {
      val size = directory.size(file)
      // Of a file that can be split and is empty Spark makes no part.
      if ((size > maxSplitBytes || size == 0) && isSplitable(path(directory, file))) {
        var start = 0L
        while (start < size) {
          add(file, start, math.min(size - start, maxSplitBytes))
          start += maxSplitBytes
        }
      } else add(file, 0, size)
      file += 1
    }
  }

  private def path(directory: DirectoryFiles, file: Int): Path =
    new Path(DirectoryFiles.join(directory.directory(tableLocation), directory.path(file)))

  private def add(file: Int, start: Long, length: Long): Unit = {
    if (count == ofFile.length) {
      ofFile = Arrays.copyOf(ofFile, count * 2)
      starts = Arrays.copyOf(starts, count * 2)
      lengths = Arrays.copyOf(lengths, count * 2)
    }
    ofFile(count) = file
    starts(count) = start
    lengths(count) = length
    count += 1
  }

  private def isOrdered: Boolean = {
    var i = 1
    while (i < count && lengths(i) <= lengths(i - 1)) i += 1
    i >= count
  }

  private def bySize: Array[Integer] = {
    val order: Array[Integer] = Array.tabulate(count)(Integer.valueOf(_))
    // Stable, as Spark's own sort.
    val largestFirst: Comparator[Integer] = (one, other) => java.lang.Long.compare(lengths(other), lengths(one))
    Arrays.sort(order, largestFirst)
    order
  }
}
