package org.apache.spark.sql.catalogext.release

import java.io.InputStream
import java.util.concurrent.CompletableFuture

import org.apache.hadoop.fs.{MultipartUploader, PartHandle, Path, UploadHandle}

object Uploads {
  /** Sends one part. */
  def put(
      uploader: MultipartUploader, upload: UploadHandle, number: Int, last: Boolean, target: Path, part: InputStream,
      length: Long): CompletableFuture[PartHandle] = uploader.putPart(upload, number, target, part, length)
}
