package org.apache.spark.sql.catalogext.write

import java.io.{ByteArrayInputStream, DataInputStream, EOFException, File, InputStream, IOException, RandomAccessFile}
import java.lang.reflect.InvocationTargetException
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent._

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{MultipartUploader, PartHandle, Path, UploadHandle}

import org.apache.spark.internal.Logging
import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.util.Utils

/**
 * For object stores: files are written to the local disk and then sent as multipart uploads, which are completed by the
 * commit.
 *
 * A finished file is uploaded in the background while the next one is written. At most `MostWaiting` finished files are
 * on the local disk; then the task waits for an upload.
 */
class UploadStaging(job: WriteJob, conf: Configuration) extends FileStaging(job, conf) {
  import UploadStaging._

  private lazy val folder = Utils.createTempDir(Utils.getLocalDir(SparkEnv.get.conf), "catalog-ext")
  private lazy val threads = Executors.newFixedThreadPool(Threads, (task: Runnable) => {
    val thread = new Thread(task, s"catalog-ext-upload-${job.stagingLocations.transaction}")
    thread.setDaemon(true)
    thread
  })
  private val slots = new Semaphore(MostWaiting)
  private val reports = mutable.ArrayBuffer.empty[Future[JsonNode]]
  /** Those of `reports` whose uploads have not ended. */
  private val running = mutable.ArrayBuffer.empty[Future[JsonNode]]
  private val uploaders = new Uploaders(conf)
  private val uploads = new ConcurrentLinkedQueue[MultipartUpload]
  private var used = false

  override def pathFor(file: TargetFile): String = {
    val key = file.path.toUri.getPath.stripPrefix("/")
    if (key.getBytes(UTF_8).length > LongestKey)
      throw WriteErrors.value(job.tableName, job.keys.map(_.name).mkString(", "), file.partition,
        s"makes a key of ${key.getBytes(UTF_8).length} bytes, and an object store takes at most $LongestKey; write a " +
          "shorter value.")
    used = true
    new Path(new File(folder, file.name).toURI).toString
  }

  override def closed(file: TargetFile, path: String, rows: Long): Unit = {
    // Get the result of finished uploads: a failed upload ends the task now, and not only after all rows are written.
    val (ended, open) = running.partition(_.isDone)
    ended.foreach(result)
    running.clear()
    running ++= open
    slots.acquire()
    val upload: Future[JsonNode] = threads.submit(() => {
      try send(file, new Path(path), rows) finally {
        remove(new Path(path))
        slots.release()
      }
    })
    reports += upload
    running += upload
  }

  private def send(file: TargetFile, path: Path, rows: Long): JsonNode =
    WriteErrors.storing(job.tableName, file.path.toString) {
      val upload = uploaders.upload(file.path)
      uploads.add(upload)
      val local = new File(path.toUri.getPath)
      val parts = upload.send(local)
      report(file, local.length, rows, path, obj("id" -> text(upload.id), "parts" -> arr(parts.map(_.json))))
    }

  private def result(report: Future[JsonNode]): JsonNode =
    try report.get() catch { case e: ExecutionException => throw e.getCause }

  override def commit(): JsonNode = arr(reports.map(result))

  override def abort(): Unit = if (used) {
    threads.shutdownNow()
    // An upload that starts even later is found by the service, by the transaction's id in its name.
    if (!threads.awaitTermination(AbortSeconds, TimeUnit.SECONDS))
      logWarning(s"Uploads of transaction ${job.stagingLocations.transaction} are still running in an aborted task")
    uploads.asScala.foreach(_.abort())
  }

  override def close(): Unit = if (used) {
    threads.shutdownNow()
    Utils.deleteRecursively(folder)
  }
}

object UploadStaging {
  private val Threads = 2
  private val MostWaiting = 4
  private val LongestKey = 1024
  private val AbortSeconds = 60L
}

/** An uploaded part of a multipart upload to S3, as the service's contract (`docs/spec/service.md`) describes it. */
case class UploadedPart(number: Int, etag: String, checksums: Map[String, String]) {
  def json: JsonNode = obj("number" -> long(number), "etag" -> text(etag), "checksums" -> map(checksums))
}

object UploadedPart {
  private val Header = "S3A-part01"
  private val Checksums = Set("CRC32", "CRC32C", "SHA1", "SHA256")

  /**
   * Parses S3A's handle of a part, in the layout that S3A's uploader writes in Hadoop 3.5. Any other layout is refused,
   * because a wrong ETag would cause an error only at the commit.
   */
  def read(handle: Array[Byte], uploadId: String, number: Int, length: Long): UploadedPart = {
    val input = new DataInputStream(new ByteArrayInputStream(handle))
    try {
      val header = input.readUTF()
      if (header != Header) throw foreign(s"its header is '${header.take(20)}'")
      input.readUTF() // skips the path
      val (id, partNumber, size, etag) = (input.readUTF(), input.readInt(), input.readLong(), input.readUTF())
      if (id != uploadId || partNumber != number || size != length || etag.isEmpty)
        throw foreign(s"it is of part $partNumber with $size bytes of upload $id")
      val checksums = if (input.available() == 0) Map.empty[String, String] else {
        val (algorithm, value) = (input.readUTF(), input.readUTF())
        if (!Checksums.contains(algorithm)) throw foreign(s"it has a checksum '$algorithm'")
        Map(s"Checksum$algorithm" -> value)
      }
      if (input.available() > 0) throw foreign(s"it has ${input.available()} more bytes than expected")
      UploadedPart(number, etag, checksums)
    } catch {
      case _: EOFException => throw foreign("it is too short")
    }
  }

  private def foreign(what: String): IOException = new IOException(
    s"The handle of an uploaded part is not the one that Hadoop's S3A makes: $what. Use the hadoop-aws of the " +
      "Hadoop version that Spark ships.")
}

/** The uploaders of a task, one for each store: a task keeps its uploads until it ends, and an uploader is large. */
class Uploaders(conf: Configuration) {
  private val known = new ConcurrentHashMap[URI, MultipartUploader]
  private val partSize =
    math.max(conf.getLongBytes("fs.s3a.multipart.size", 64L << 20), MultipartUpload.SmallestPart)

  /** An upload to the key `target`, which has not begun. */
  def upload(target: Path): MultipartUpload = {
    val fs = target.getFileSystem(conf)
    // Use the store's root as the base path, so that one uploader serves every key.
    val uploader = known.computeIfAbsent(fs.getUri, root => fs.createMultipartUploader(new Path(s"$root/")).build())
    new MultipartUpload(target, uploader, partSize)
  }
}

/**
 * One multipart upload to one key, through Hadoop's public API. `abort` may be called from another thread than `send`.
 *
 * @param partSize the size of a part in bytes, unless the file is too large for the store's maximum number of parts
 */
class MultipartUpload(target: Path, uploader: MultipartUploader, partSize: Long) extends Logging {
  @volatile private var handle: UploadHandle = _

  def id: String = new String(handle.toByteArray, UTF_8)

  /**
   * Uploads the whole file, several parts in parallel. Part sizes are such that the number of parts stays within the
   * store's limit.
   */
  def send(file: File): Seq[UploadedPart] = {
    handle = waitFor(uploader.startUpload(target))
    val length = file.length
    val size = math.max(partSize, (length + MultipartUpload.MostParts - 1) / MultipartUpload.MostParts)
    val count = math.max(((length + size - 1) / size).toInt, 1)
    (0 until count).grouped(MultipartUpload.PartsAtOnce).flatMap { numbers =>
      val sending = numbers.map { i =>
        val part = new FilePart(file, i * size, math.min(size, length - i * size))
        (i, part, UploadedParts.put(uploader, handle, i + 1, i == count - 1, target, part, part.length))
      }
      try sending.map { case (i, part, future) => UploadedPart.read(bytes(waitFor(future)), id, i + 1, part.length) }
      finally sending.foreach(_._2.close())
    }.toSeq
  }

  private def bytes(part: PartHandle): Array[Byte] = part.toByteArray

  private def waitFor[T](future: CompletableFuture[T]): T = try future.get() catch {
    case e: ExecutionException => throw e.getCause
  }

  def abort(): Unit = if (handle != null) {
    try waitFor(uploader.abort(handle, target)) catch {
      case NonFatal(e) => logWarning(s"The upload of $target was not aborted", e)
    }
  }
}

object MultipartUpload {
  // Limits of S3: the maximum number of parts of an upload, and the minimum size of each part except the last.
  private val MostParts = 10000
  private[write] val SmallestPart = 5L << 20
  private val PartsAtOnce = 4
}

/** A range of a file as a stream with mark and reset, so that it can be sent again. */
class FilePart(file: File, offset: Long, val length: Long) extends InputStream {
  private val source = new RandomAccessFile(file, "r")
  private var position = 0L
  private var marked = 0L
  source.seek(offset)

  override def read(): Int = if (position >= length) -1 else {
    val byte = source.read()
    if (byte >= 0) position += 1
    byte
  }

  override def read(buffer: Array[Byte], at: Int, wanted: Int): Int =
    if (wanted == 0) 0
    else if (position >= length) -1
    else {
      val got = source.read(buffer, at, math.min(wanted.toLong, length - position).toInt)
      if (got > 0) position += got
      got
    }

  override def available(): Int = math.min(length - position, Int.MaxValue.toLong).toInt
  override def markSupported(): Boolean = true
  override def mark(limit: Int): Unit = marked = position
  override def reset(): Unit = {
    position = marked
    source.seek(offset + position)
  }
  override def close(): Unit = source.close()
}

/**
 * Uploads parts by the method that the installed Hadoop has: since 3.4.2 it also takes a flag for the last part. A
 * Spark without bundled Hadoop uses the platform's, so the Spark release does not decide it.
 */
object UploadedParts {
  private val putPart = {
    def found(parameters: Class[_]*) =
      try Some(classOf[MultipartUploader].getMethod("putPart", parameters: _*))
      catch { case _: NoSuchMethodException => None }
    val (upload, path, stream) = (classOf[UploadHandle], classOf[Path], classOf[InputStream])
    found(upload, classOf[Int], classOf[Boolean], path, stream, classOf[Long])
      .toRight(classOf[MultipartUploader].getMethod("putPart", upload, classOf[Int], path, stream, classOf[Long]))
  }

  /** Sends one part. */
  def put(
      uploader: MultipartUploader, upload: UploadHandle, number: Int, last: Boolean, target: Path, part: InputStream,
      length: Long): CompletableFuture[PartHandle] = {
    val sent = try putPart match {
      case Right(method) =>
        method.invoke(uploader, upload, Int.box(number), Boolean.box(last), target, part, Long.box(length))
      case Left(older) => older.invoke(uploader, upload, Int.box(number), target, part, Long.box(length))
    } catch { case failed: InvocationTargetException if NonFatal(failed.getCause) => throw failed.getCause }
    sent.asInstanceOf[CompletableFuture[PartHandle]]
  }
}
