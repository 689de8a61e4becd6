package org.apache.spark.sql.catalogext.write

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{AccessDeniedException => NioAccessDenied}

import scala.annotation.tailrec

import org.apache.hadoop.fs.UnsupportedFileSystemException
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.sql.catalogext.service.{Condition, ConnectorErrors}
import org.apache.spark.sql.catalogext.service.ConnectorErrors.{LocationNotFound, StorageAccessDenied,
  StorageUnavailable}

/** The errors that a write raises before its commit. */
object WriteErrors {
  // Classes of S3A and of its SDK, which need not be there.
  private val Missing = Set("UnknownStoreException", "NoSuchBucketException")

  def tooManyPartitions(table: String, setting: String, limit: Long, count: Long, who: String): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.TooManyPartitions,
      s"$who makes $count dynamic partitions of table $table, and '$setting' allows $limit; nothing was written. " +
        s"Raise '$setting' (SET $setting = ..., or the table's property), or write fewer partitions at once.",
      Map("table" -> table, "setting" -> setting, "limit" -> limit.toString, "count" -> count.toString))

  def value(table: String, column: String, value: String, what: String): Throwable = {
    val shown = if (value.length > 80) s"${value.take(60)}… (${value.length} characters)" else value
    ConnectorErrors.runtime(ConnectorErrors.InvalidValue,
      s"The value '$shown' of partition column '$column' of table $table $what", Map("column" -> column, "value" -> shown))
  }

  /** Runs `body`; what the store refuses names the file and the table. */
  def storing[T](table: String, path: String)(body: => T): T = try body catch {
    case e: IOException => throw storage(table, path, e)
  }

  def storage(table: String, path: String, e: IOException): Throwable = {
    val (condition, remedy) = kind(e, 0)
    // The first words are those of the ClickHouse document for a bucket that is not there or cannot be written.
    ConnectorErrors.runtime(condition,
      s"Failed to check existence of a key or to write it: $path of table $table cannot be written: " +
        s"${e.getMessage} $remedy", Map("path" -> path, "table" -> table), Some(e))
  }

  @tailrec private def kind(e: Throwable, depth: Int): (Condition, String) = e match {
    case _: AccessControlException | _: NioAccessDenied =>
      (StorageAccessDenied, "Check the permissions of the account that writes.")
    case _: FileNotFoundException | _: UnsupportedFileSystemException =>
      // A local disk says so of a directory that may not be written as well.
      if (String.valueOf(e.getMessage).contains("Permission denied"))
        (StorageAccessDenied, "Check the permissions of the directory.")
      else (LocationNotFound, "Check that the bucket or directory exists.")
    case _ if Missing.contains(e.getClass.getSimpleName) => (LocationNotFound, "Check that the bucket exists.")
    case _ if e.getCause != null && depth < 8 => kind(e.getCause, depth + 1)
    case _ if String.valueOf(e.getMessage).contains("Permission denied") =>
      (StorageAccessDenied, "Check the permissions of the directory.")
    case _ => (StorageUnavailable, "Nothing of the write is visible; run it again.")
  }
}
