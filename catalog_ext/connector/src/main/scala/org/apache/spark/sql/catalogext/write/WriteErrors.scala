package org.apache.spark.sql.catalogext.write

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{AccessDeniedException => NioAccessDenied}
import java.util.Locale

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.UnsupportedFileSystemException
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.sql.catalogext.service.ConnectorErrors.{LocationNotFound, StorageAccessDenied,
  StorageUnavailable}
import org.apache.spark.sql.catalogext.service.{Condition, ConnectorErrors}
import org.apache.spark.util.CollectionAccumulator
import org.apache.spark.{SparkContext, SparkThrowable, TaskContext, TaskKilledException}

/** Errors of a write before its commit: which of them a store has caused, and what the user can do. */
object WriteErrors {
  // The maximum number of causes that are searched for an error. Classes of S3A and its SDK may be absent, so they are
  // matched by name.
  private val Deepest = 8
  // Parts of messages about a full store, from the operating system, from HDFS quotas and from Hadoop's disk check.
  private val Full = Seq("no space left", "quota exceeded", "is exceeded: quota", "not enough space", "could not find any valid local")
  private val NoSpace = "Nothing of the write is visible. Make room there, or let the table lie elsewhere, and run it again."
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

  /** Runs `body`. If the store fails, the error names the file and the table. */
  def storing[T](table: String, path: String)(body: => T): T = try body catch {
    case NonFatal(e) if isOfStorage(e) => throw storage(table, path, e)
  }

  /** Whether a file system or an object store failed, and the error is not one of this connector yet. */
  def isOfStorage(e: Throwable): Boolean =
    !e.isInstanceOf[SparkThrowable] && chain(e).exists(_.isInstanceOf[IOException])

  /** The error, its causes, and suppressed errors, because closing a file after a failure raises a further error. */
  private def chain(e: Throwable): Seq[Throwable] = {
    val causes = Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(Deepest).toSeq
    causes ++ causes.flatMap(_.getSuppressed)
  }

  /** The most informative message: a full disk, or else the innermost cause. */
  private def reason(e: Throwable): String = {
    val words = chain(e).map(_.getMessage).filter(message => message != null && message.nonEmpty)
    words.find(isFull).orElse(words.headOption).getOrElse(e.getClass.getSimpleName).linesIterator.next().stripSuffix(".")
  }

  private def isFull(words: String): Boolean = Full.exists(words.toLowerCase(Locale.ROOT).contains(_))

  def storage(table: String, path: String, e: Throwable): Throwable = {
    val full = chain(e).exists(each => each.getMessage != null && isFull(each.getMessage))
    val (condition, remedy) = if (full) (StorageUnavailable, NoSpace) else kind(e, 0)
    // The first words are those that ClickHouse's documentation quotes for a bucket that is missing or not writable.
    ConnectorErrors.runtime(condition,
      s"Failed to check existence of a key or to write it: $path of table $table cannot be written: " +
        s"${reason(e)}. $remedy", Map("path" -> path, "table" -> table), Some(e))
  }

  @tailrec private def kind(e: Throwable, depth: Int): (Condition, String) = e match {
    case _: AccessControlException | _: NioAccessDenied =>
      (StorageAccessDenied, "Check the permissions of the account that writes.")
    case _: FileNotFoundException | _: UnsupportedFileSystemException =>
      // A local disk reports a directory that may not be written with this text in a plain IOException.
      if (String.valueOf(e.getMessage).contains("Permission denied"))
        (StorageAccessDenied, "Check the permissions of the directory.")
      else (LocationNotFound, "Check that the bucket or directory exists.")
    case _ if Missing.contains(e.getClass.getSimpleName) => (LocationNotFound, "Check that the bucket exists.")
    case _ if e.getCause != null && depth < 8 => kind(e.getCause, depth + 1)
    case _ if String.valueOf(e.getMessage).contains("Permission denied") =>
      (StorageAccessDenied, "Check the permissions of the directory.")
    // Hadoop does not report why a local directory could not be created, because java.io.File returns only false.
    case _ if String.valueOf(e.getMessage).startsWith("Mkdirs failed") =>
      (StorageAccessDenied, "Nothing of the write is visible. Check the permissions of the directory above, and that " +
        "its file system can be written.")
    case _ => (StorageUnavailable, "Nothing of the write is visible; run it again.")
  }
}

/**
 * Sends the errors of a write's failed tasks to the driver. Spark notifies a writer of a failed job without the cause.
 *
 * Messages are strings in a Spark class, so any class loader can read them.
 */
class TaskFailures private (said: CollectionAccumulator[String]) extends Serializable {
  /** In a task: reports the error to the driver if the task fails. */
  def watch(): Unit = Option(TaskContext.get()).foreach(_.addTaskFailureListener((_: TaskContext, error: Throwable) =>
    error match {
      case _: TaskKilledException | _: InterruptedException => ()
      case other => said.add(TaskFailures.text(other))
    }))

  /** On the driver: the error of the write's last failed task; None if no task failed. */
  def last: Option[String] = said.value.asScala.lastOption
}

object TaskFailures {
  private val Longest = 500

  def of(context: SparkContext): TaskFailures = {
    val said = new CollectionAccumulator[String]
    said.register(context, None, countFailedValues = true)
    new TaskFailures(said)
  }

  private def text(error: Throwable): String = {
    val message = Option(error.getMessage).getOrElse(error.getClass.getSimpleName)
    message.linesIterator.nextOption().getOrElse("").take(Longest)
  }
}
