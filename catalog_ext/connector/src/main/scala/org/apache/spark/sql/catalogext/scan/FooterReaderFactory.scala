package org.apache.spark.sql.catalogext.scan

import java.io.FileNotFoundException
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{EtagSource, FileStatus, FileSystem, Path}

import org.apache.spark.SparkException
import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalogext.service.Json
import org.apache.spark.sql.catalogext.write.FileStatistics
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.{SerializableConfiguration, ThreadUtils}

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
      schema: StructType = StructType(Nil)): Footer = {
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
 * Reads the footers of a task's files: a row a file, in the order of the files, of its row count and whether the store
 * has the file of the index.
 *
 * Threads hide the latency of a store: a footer is a few small requests, one after the other.
 */
class FooterReaderFactory(format: String, conf: SerializableConfiguration) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new FooterReader(format, partition.asInstanceOf[FilePartition].files.toSeq, conf.value)
}

private class FooterReader(format: String, files: Seq[PartitionedFile], conf: Configuration)
  extends PartitionReader[InternalRow] {

  private val hasFailed = new AtomicBoolean
  private lazy val found = read().iterator
  private var current: Footer = _

  override def next(): Boolean = found.hasNext && {
    current = found.next()
    true
  }

  override def get(): InternalRow = InternalRow(current.rows, current.isIndexed)
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
    else Some(try Right(Footer.read(format, file.toPath, file.fileSize, file.modificationTime, conf)) catch {
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
