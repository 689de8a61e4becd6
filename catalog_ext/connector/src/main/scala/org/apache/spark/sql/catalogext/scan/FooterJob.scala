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
 * What the footers of one task's files say, in their order.
 *
 * @param areIndexed whether the store has the file of the index
 * @param statistics JSON texts; null where none were asked for
 */
private[catalogext] case class Footers(rows: Array[Long], areIndexed: Array[Boolean], statistics: Array[String])

private[catalogext] case class CountedPart(range: PartRange, footers: Footers) {
  /** Each file with its partition and its number there, and its place among the footers. */
  def files: Iterator[(DirectoryFiles, Int, Int)] = footers.rows.indices.iterator.map { i =>
    val (batch, file) = (range.parts.batch, range.from + i)
    val partition = batch.partitionOf(file)
    (partition, file - batch.firstOf(partition.number), i)
  }

  /** The contract's entries of the files that are those of the index. */
  def entries: Iterator[JsonNode] = files.collect { case (partition, file, i) if footers.areIndexed(i) =>
    StatisticsRequests.file(partition.name, partition.path(file), partition.size(file), partition.modifiedMs(file),
      footers.rows(i), Option(footers.statistics(i)).fold(Json.Null)(Json.mapper.readTree))
  }
}

/**
 * Reads the footers of files: of a few on the driver, of more in tasks. The driver holds the batches of the files, and
 * thirteen bytes a file of row counts.
 *
 * @param readers of `FooterReaderFactory`, which explain what is wrong with a file
 */
private[catalogext] class FooterJob private (context: SparkContext, readers: PartitionReaderFactory) {
  import FooterJob._

  /** All of them. `use` gets those of each task as soon as it ends, on a thread of Spark's scheduler: it must not wait. */
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
      val parts = new FileParts(batch)
      (0 until batch.files by most).map(from => PartRange(parts, from, math.min(from + most, batch.files)))
    }
  }
}

private[catalogext] object FooterJob {
  /**
   * Of files of the table's own format.
   *
   * @param options those of the read: credentials may be among them, as in Spark's own scan
   * @param columns those whose statistics are wanted too
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
      Some(table.version)))
  }

  /** A task takes longer to start than a few footers take to be read. */
  val MostOfDriver = 100
  private val TasksPerCore = 4
  private val LeastOfTask = 50L
  // A task that fails is read again, and its counts are recorded by one request.
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

  /** A task for each share. What `parallelize` sends may go by another serializer than Java's, and with whole batches. */
  private class FooterRdd(context: SparkContext, @transient shares: Seq[FileShare], readers: PartitionReaderFactory)
    extends RDD[Footers](context, Nil) {

    override protected def getPartitions: Array[Partition] = shares.toArray
    override def compute(share: Partition, task: TaskContext): Iterator[Footers] =
      Iterator(footers(readers, share.asInstanceOf[FileShare]))
  }
}

/**
 * What a file's footer says.
 *
 * @param statistics of columns, as `FileStatistics` gives them
 * @param isIndexed whether the file on the store is the one of the index: only then the count is a fact about that file
 */
case class Footer(rows: Long, statistics: JsonNode, isIndexed: Boolean)

object Footer {
  private val Second = 1000
  /** The ways in which S3A detects that an object has changed, and fails. */
  private val Pinning = Set("server", "client")

  /**
   * Reads the footer of a file that the index has with a size and a modification time.
   *
   * The store is asked for the file's status before the footer is read, and once more after it, unless the store itself
   * refuses to read on in a file that was replaced ([[isPinned]]). So a file that was replaced in between has the other
   * identity in one of the answers, and its count is not recorded.
   *
   * @param schema the columns whose statistics are wanted
   */
  def read(
      format: String,
      path: Path,
      size: Long,
      modifiedMs: Long,
      conf: Configuration,
      schema: StructType): Footer = {
    def isIndexed(status: FileStatus) = status.getLen == size && isSameTime(status.getModificationTime, modifiedMs)
    // Spark makes no task of an empty file, so that a scan never opens it either.
    if (size == 0) Footer(0, Json.obj(), isIndexed = true)
    else {
      val store = path.getFileSystem(conf)
      val before = store.getFileStatus(path)
      val (rows, statistics) = FileStatistics.counted(format, before, conf, schema).get
      val isSame = isIndexed(before) && (isPinned(before, store) || statusOf(store, path).exists(isIndexed))
      Footer(rows, statistics, isSame)
    }
  }

  /**
   * Whether each read of the file that is opened with this status fails where the store has another file by then: S3A sends
   * the ETag of the status with each read, unless its change detection is set otherwise.
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
      // Removed after its footer was read: the query has its count, as a scan would.
      case _: FileNotFoundException => None
    }

  /** As `metastore/model/etags.py`: some stores answer by the second here and by the millisecond there. */
  private def isSameTime(one: Long, other: Long): Boolean =
    one == other || (one % Second == 0 || other % Second == 0) && one / Second == other / Second
}

/**
 * Reads the footers of a task's files: a row a file, in the order of the files, of its row count, whether the store has the
 * file of the index, and the statistics of some columns; NULL where there are no columns.
 *
 * Threads hide the latency of a store: a footer is a few small requests, one after the other.
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

  /** None once another file has failed: its error ends the task, whatever the other files have. */
  private def tried(file: PartitionedFile): Option[Either[(PartitionedFile, Throwable), Footer]] =
    if (hasFailed.get) None
    else Some(try Right(Footer.read(format, file.toPath, file.fileSize, file.modificationTime, conf, columns)) catch {
      case NonFatal(e) =>
        hasFailed.set(true)
        Left((file, e))
    })

  /** The error that Spark's own reader would give, for `RegisteredFileReaderFactory` to explain. */
  private def failure(file: PartitionedFile, cause: Throwable): Throwable = {
    InputFileBlockHolder.set(file.urlEncodedPath, 0, file.fileSize)
    new SparkException("FAILED_READ_FILE.NO_HINT", Map("path" -> file.urlEncodedPath), cause)
  }
}

private object FooterReader {
  val Threads = 16
}
