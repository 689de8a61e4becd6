package org.apache.spark.sql.catalogext.scan

import java.io.FileNotFoundException
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus, FileSystem, Path}

import org.apache.spark.rdd.{InputFileBlockHolder, RDD}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.{Json, StatisticsRequests}
import org.apache.spark.sql.catalogext.write.FileStatistics
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.{SerializableConfiguration, ThreadUtils}
import org.apache.spark.{Partition, SparkContext, SparkException, TaskContext}

/**
 * The footers of one task's files, in the order of the files.
 *
 * @param rows the row count of each file
 * @param areIndexed whether the file on the store is the one that the index has
 * @param statistics the column statistics as JSON texts; null if none were requested
 */
private[catalogext] case class Footers(rows: Array[Long], areIndexed: Array[Boolean], statistics: Array[String])

private[catalogext] case class CountedPart(range: PartRange, footers: Footers) {
  /** For each file its partition, its number in the partition, and its position among the footers. */
  def files: Iterator[(DirectoryFiles, Int, Int)] = footers.rows.indices.iterator.map { i =>
    val (batch, file) = (range.parts.batch, range.from + i)
    val partition = batch.partitionOf(file)
    (partition, file - batch.firstOf(partition.number), i)
  }

  /** The entries of `statistics/put` for files that are unchanged on the store. */
  def entries: Iterator[JsonNode] = files.collect { case (partition, file, i) if footers.areIndexed(i) =>
    StatisticsRequests.file(partition.name, partition.path(file), partition.size(file), partition.modifiedMs(file),
      footers.rows(i), Option(footers.statistics(i)).fold(Json.Null)(Json.mapper.readTree))
  }
}

/**
 * Reads the footers of files: a few on the driver, more in tasks. The driver keeps the batches of the files and
 * thirteen bytes per file for its row count.
 *
 * @param readers of `FooterReaderFactory`, which report an unreadable file
 */
private[catalogext] class FooterJob private (context: SparkContext, readers: PartitionReaderFactory) {
  import FooterJob._

  /**
   * Reads the footers of all files. Calls `use` with the footers of each task when it ends, on a thread of Spark's
   * scheduler, so it must not block.
   */
  def read(files: ChosenFiles)(use: CountedPart => Unit): Seq[CountedPart] = {
    val parts = ranges(files)
    val shares = parts.zipWithIndex.map { case (part, i) => new FileShare(i, Seq(part), Array.empty) }
    val found = new Array[CountedPart](parts.length)
    val take = (part: Int, footers: Footers) => {
      found(part) = CountedPart(parts(part), footers)
      use(found(part))
    }
    if (files.choice.files <= MostOfDriver) shares.foreach(share => take(share.index, footers(readers, share)))
    else context.runJob(new FooterRdd(context, shares, readers), (found: Iterator[Footers]) => found.next(), take)
    found.toSeq
  }

  private def ranges(files: ChosenFiles): Seq[PartRange] = {
    val tasks = math.max(context.defaultParallelism * TasksPerCore, 1)
    val most = math.min(math.max(files.choice.files / tasks, LeastOfTask), MostOfTask).toInt
    files.batches.flatMap { batch =>
      val parts = FileParts.whole(batch)
      (0 until batch.files by most).map(from => PartRange(parts, from, math.min(from + most, batch.files)))
    }
  }
}

private[catalogext] object FooterJob {
  /**
   * A job for files of the table's own format.
   *
   * @param options of the read; as in Spark's own scan they may contain credentials
   * @param columns the columns whose statistics are requested too
   */
  def of(
      spark: SparkSession,
      catalogName: String,
      table: TableMetadata,
      options: Map[String, String],
      columns: StructType = StructType(Nil)): FooterJob = {
    val conf = new SerializableConfiguration(spark.sessionState.newHadoopConfWithOptions(options))
    val readers = new FooterReaderFactory(table.format, conf, columns)
    val none = StructType(Nil)
    new FooterJob(spark.sparkContext, new RegisteredFileReaderFactory(
      readers, FileMaker(table.location, none, "UTC", Map.empty, none, Nil), catalogName, table.qualifiedName, table.format,
      Some(table.version), PinnedReads.conf(spark, table, options)))
  }

  /** Starting a task takes longer than reading a few footers. */
  val MostOfDriver = 100
  private val TasksPerCore = 4
  private val LeastOfTask = 50L
  // Tasks are small, because a failed task is repeated, and the counts of a task are recorded by one request.
  private val MostOfTask = 1000L

  private def footers(readers: PartitionReaderFactory, share: InputPartition): Footers = {
    val reader = readers.createReader(share)
    try {
      val (rows, areIndexed, statistics) = Iterator.continually(reader).takeWhile(_.next()).map(_.get())
        .map(found => (found.getLong(0), found.getBoolean(1), if (found.isNullAt(2)) null else found.getString(2)))
        .toArray.unzip3
      Footers(rows, areIndexed, statistics)
    } finally reader.close()
  }

  /**
   * An RDD with one task per share. `parallelize` is not used, because it may use another serializer than Java's, and
   * would send whole batches to the tasks.
   */
  private class FooterRdd(context: SparkContext, @transient shares: Seq[FileShare], readers: PartitionReaderFactory)
    extends RDD[Footers](context, Nil) {

    override protected def getPartitions: Array[Partition] = shares.toArray
    override def compute(share: Partition, task: TaskContext): Iterator[Footers] =
      Iterator(footers(readers, share.asInstanceOf[FileShare]))
  }
}

/**
 * The content of a file's footer.
 *
 * @param statistics of columns, from `FileStatistics`
 * @param isIndexed whether the file on the store is the one that the index has; only then the count may be recorded
 */
case class Footer(rows: Long, statistics: JsonNode, isIndexed: Boolean)

object Footer {
  private val Second = 1000L
  /** The modes in which S3A detects that an object was replaced, and fails. */
  private val Pinning = Set("server", "client")

  /**
   * Reads the footer of a file for which the index has a size and a modification time.
   *
   * The file's status is requested before the footer is read and again afterwards, unless the store itself refuses to
   * continue reading a replaced file ([[isPinned]]). So if a file was replaced meanwhile, one of the two answers
   * differs from the index, and the count is not recorded.
   *
   * @param schema the columns whose statistics are requested
   */
  def read(
      format: String,
      path: Path,
      size: Long,
      modifiedMs: Long,
      conf: Configuration,
      schema: StructType): Footer = {
    // Spark creates no task for an empty file, so no scan opens it either.
    if (size == 0) Footer(0, Json.obj(), isIndexed = true)
    else {
      val store = path.getFileSystem(conf)
      val before = store.getFileStatus(path)
      val (rows, statistics) = FileStatistics.counted(format, before, conf, schema).get
      def isStill(status: FileStatus) = isIndexed(status, size, modifiedMs)
      val isSame = isStill(before) && (isPinned(before, store) || statusOf(store, path).exists(isStill))
      Footer(rows, statistics, isSame)
    }
  }

  /** Whether a file on the store is the one that the index has, by size and time. */
  private[catalogext] def isIndexed(status: FileStatus, size: Long, modifiedMs: Long): Boolean =
    status.getLen == size && isSameTime(status.getModificationTime, modifiedMs)

  /**
   * Whether each read of a file opened with this status fails once the store has another file: S3A sends the ETag of
   * the status with every read, unless its change detection is configured otherwise.
   */
  private def isPinned(status: FileStatus, store: FileSystem): Boolean = status match {
    case known: EtagSource if known.getEtag != null && store.getUri.getScheme == "s3a" =>
      val conf = store.getConf
      Pinning(conf.getTrimmed("fs.s3a.change.detection.mode", "server")) &&
        conf.getTrimmed("fs.s3a.change.detection.source", "etag") == "etag"
    case _ => false
  }

  private def statusOf(store: FileSystem, path: Path): Option[FileStatus] =
    try Some(store.getFileStatus(path)) catch {
      // The file was removed after its footer was read. Use the row count all the same, as a scan would return the rows
      // that it has read.
      case _: FileNotFoundException => None
    }

  /**
   * Whether two modification times are equal. As in `metastore/model/etags.py` they are compared by the second if one
   * of them has no milliseconds, because some stores report seconds in one request and milliseconds in another.
   */
  private[catalogext] def isSameTime(one: Long, other: Long): Boolean =
    one == other || (one % Second == 0 || other % Second == 0) &&
      Math.floorDiv(one, Second) == Math.floorDiv(other, Second)
}

/**
 * Reads the footers of a task's files. It returns one row per file, in order: row count, whether the store has the file
 * of the index, and the statistics (NULL if no columns are requested).
 *
 * Several threads hide the latency of a store: a footer takes a few small requests, one after the other.
 */
class FooterReaderFactory(format: String, conf: SerializableConfiguration, columns: StructType)
  extends PartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new FooterReader(format, partition.asInstanceOf[FilePartition].files.toSeq, conf.value, columns)
}

private class FooterReader(format: String, files: Seq[PartitionedFile], conf: Configuration, columns: StructType)
  extends PartitionReader[InternalRow] {

  private val hasFailed = new AtomicBoolean
  private lazy val found = read().iterator
  private var current: Footer = _

  override def next(): Boolean = found.hasNext && {
    current = found.next()
    true
  }

  override def get(): InternalRow = InternalRow(current.rows, current.isIndexed,
    if (columns.isEmpty) null else UTF8String.fromString(current.statistics.toString))
  override def close(): Unit = InputFileBlockHolder.unset()

  private def read(): Seq[Footer] = {
    val threads = math.max(math.min(files.length, FooterReader.Threads), 1)
    ThreadUtils.parmap(files, "catalog-ext-footers", threads)(tried).flatten.map {
      case Right(footer) => footer
      case Left((file, cause)) => throw failure(file, cause)
    }
  }

  /**
   * The footer of a file, or the error. None once another file of the task has failed: that error ends the task anyway.
   */
  private def tried(file: PartitionedFile): Option[Either[(PartitionedFile, Throwable), Footer]] =
    if (hasFailed.get) None
    else Some(try Right(Footer.read(format, file.toPath, file.fileSize, file.modificationTime, conf, columns)) catch {
      case NonFatal(e) =>
        hasFailed.set(true)
        Left((file, e))
    })

  /** The error that Spark's own reader would raise, in a form that `RegisteredFileReaderFactory` can explain. */
  private def failure(file: PartitionedFile, cause: Throwable): Throwable = {
    InputFileBlockHolder.set(file.urlEncodedPath, 0, file.fileSize)
    new SparkException("FAILED_READ_FILE.NO_HINT", Map("path" -> file.urlEncodedPath), cause)
  }
}

private object FooterReader {
  val Threads = 16
}
