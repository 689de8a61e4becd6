package org.apache.spark.sql.catalogext.write

import java.io.InputStream
import java.lang.reflect.InvocationTargetException
import java.util.concurrent.CompletableFuture

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{MultipartUploader, PartHandle, Path, UploadHandle}

/**
 * Sends parts by the call that the Hadoop at hand has: since its release 3.4.2 it has to know the last one. A Spark
 * without Hadoop of its own gets the platform's, so that Spark's release does not decide it.
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
