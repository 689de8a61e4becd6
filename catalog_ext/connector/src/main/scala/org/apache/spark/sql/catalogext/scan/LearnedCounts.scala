package org.apache.spark.sql.catalogext.scan

import java.util.ArrayList
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.{ServiceClient, ServiceException, StatisticsRequests}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.util.ThreadUtils

/**
 * Records row counts in the index while the query that finds them runs.
 *
 * A thread of its own sends them, so a slow or unavailable service neither fails nor delays the query. After the first
 * failed request nothing more is sent; it is logged, and the next query reads the footers again.
 */
private[scan] class LearnedCounts(client: ServiceClient, catalogName: String, table: TableMetadata) extends Logging {
  import LearnedCounts._

  private val started = System.nanoTime()
  private val waiting = new LinkedBlockingQueue[CountedPart]
  private val thread = ThreadUtils.newDaemonSingleThreadExecutor(s"catalog-ext-learned-${table.tableId}")
  @volatile private var hasFailed = false

  /** Adds the counts of a task to the queue. It must not block, because a thread of Spark's scheduler calls it. */
  def add(part: CountedPart): Unit = if (!hasFailed) {
    waiting.add(part)
    thread.execute(() => recordSome())
  }

  /**
   * Waits until all counts are recorded, but no longer than the query has read footers: the next query often follows at
   * once and would read them again. Counts that a slow service has not recorded by then are recorded afterwards.
   */
  def finish(): Unit = {
    thread.shutdown()
    val readingMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started)
    thread.awaitTermination(math.max(readingMillis, LeastPatienceMillis), TimeUnit.MILLISECONDS)
  }

  /** Stops without waiting, because the query has failed; counts that were added are still sent. */
  def close(): Unit = thread.shutdown()

  private def recordSome(): Unit = if (!hasFailed) {
    // Counts that small tasks have added meanwhile are sent in one request.
    val parts = new ArrayList[CountedPart]
    waiting.drainTo(parts, PartsAtOnce)
    try parts.asScala.iterator.flatMap(_.entries).grouped(StatisticsRequests.FilesAtOnce).foreach(put) catch {
      case e: ServiceException if e.is("READ_ONLY_TOKEN") =>
        giveUp()
        logInfo(s"The row counts of files of $catalogName.${table.qualifiedName} are not recorded: the token only reads")
      case NonFatal(e) =>
        giveUp()
        logWarning(s"The row counts that a query has read of files of $catalogName.${table.qualifiedName} could not be " +
          "recorded in the index; the next query reads these footers again", e)
    }
  }

  private def giveUp(): Unit = {
    hasFailed = true
    waiting.clear()
  }

  private def put(files: Seq[JsonNode]): Unit =
    client.call("statistics/put", StatisticsRequests.of(table, files, "columns" -> Null, "publish" -> bool(false)),
      patient = false)
}

object LearnedCounts {
  val Setting = "statistics.learn"

  private val LeastPatienceMillis = 2000L
  private val PartsAtOnce = 100
}
