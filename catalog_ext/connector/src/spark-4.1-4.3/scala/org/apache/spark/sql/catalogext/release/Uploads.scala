package org.apache.spark.sql.catalogext.release

import java.io.InputStream
import java.util.concurrent.CompletableFuture

import org.apache.hadoop.fs.{MultipartUploader, PartHandle, Path, UploadHandle}

object Uploads {
  /** Sends one part; Hadoop has to know the last one since its release 3.4.2. */
  def put(
      uploader: MultipartUploader, upload: UploadHandle, number: Int, last: Boolean, target: Path, part: InputStream,
      length: Long): CompletableFuture[PartHandle] = uploader.putPart(upload, number, last, target, part, length)
}
