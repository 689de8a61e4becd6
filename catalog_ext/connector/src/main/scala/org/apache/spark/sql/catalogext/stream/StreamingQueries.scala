package org.apache.spark.sql.catalogext.stream

import java.util.{Locale, UUID}
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, TimeUnit, TimeoutException}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.release.Streaming.{MicroBatchExecutionContext, StreamExecution}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.write.{CatalogExtWrite, WriteSettings, WriteTarget}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.streaming.StreamingQueryException

/**
 * The streaming queries that write to tables of this connector, as far as their sinks need them: watermarks, and the
 * commit of waiting partitions after a query's end.
 */
object StreamingQueries extends Logging {
  private val PartitionCommit = "sink.partition-commit."
  private val Trigger = s"${PartitionCommit}trigger"
  private case class Watch(execution: StreamExecution, table: String, done: CompletableFuture[Unit])

  /**
   * How long a reader waits for the last commit of an ended query; a hanging service must not block every statement.
   */
  private val LongestWaitMillis = 10000L
  private val watches = new ConcurrentHashMap[UUID, Watch]

  /** The watermark of the current epoch; 0 if the query has none yet. */
  def watermarkMillis(spark: SparkSession, queryId: String): Long =
    find(spark, queryId).flatMap(execution => Option(execution.lastExecution))
      .fold(0L)(_.offsetSeqMetadata.batchWatermarkMs)

  /**
   * Ensures that partitions which still wait when a query ends by itself are committed, because no later rows can
   * arrive.
   *
   * Spark does not notify a sink of a query's end. A thread waits for it, and `awaitEnds` lets readers on this driver
   * see the commit.
   */
  def watch(spark: SparkSession, queryId: String, target: WriteTarget, settings: WriteSettings): Unit =
    find(spark, queryId).filter(endsByItself).filter(_ => mayWait(target, settings)).foreach { execution =>
      watches.computeIfAbsent(execution.runId, _ => start(spark, execution, target, settings))
    }

  /** Refuses a query whose partitions would wait for a watermark although the query has none. */
  def checkWatermark(spark: SparkSession, queryId: String, target: WriteTarget, settings: WriteSettings): Unit = {
    if (settings.byWatermark) find(spark, queryId).foreach { execution =>
      if (!endsByItself(execution) && !execution.analyzedPlan.exists(_.isInstanceOf[EventTimeWatermark])) {
        throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
          s"Partitions of ${target.tableName} become visible by the query's watermark ('$Trigger' = " +
            "'partition-time'), and this query has none: add withWatermark, use the trigger availableNow, or set the option to " +
            "'process-time'.", Map("key" -> Trigger, "table" -> target.tableName))
      }
    }
  }

  /**
   * Waits, at most some seconds, until the partitions are committed that ended queries have left waiting for a table.
   *
   * @param table the table's name without the catalog
   */
  def awaitEnds(table: String): Unit = {
    val until = System.nanoTime() + LongestWaitMillis * 1000000
    val ended = watches.values.asScala.filter(w => w.table.equalsIgnoreCase(table) && !w.execution.isActive)
    ended.foreach { watch =>
      try watch.done.get(math.max(until - System.nanoTime(), 0L), TimeUnit.NANOSECONDS) catch {
        case _: TimeoutException => logWarning(s"Query ${watch.execution.id} has ended, and what it left of $table is " +
          s"not committed after $LongestWaitMillis ms: the table is read without it")
      }
    }
  }

  private def find(spark: SparkSession, queryId: String): Option[StreamExecution] =
    Option(spark.sharedState.activeStreamingQueries.get(UUID.fromString(queryId)))

  private def endsByItself(execution: StreamExecution): Boolean =
    execution.trigger == AvailableNowTrigger || execution.trigger == OneTimeTrigger

  private def mayWait(target: WriteTarget, settings: WriteSettings): Boolean =
    (target.metadata.properties.keys ++ settings.options.keySet().asScala)
      .exists(_.toLowerCase(Locale.ROOT).startsWith(PartitionCommit))

  private def start(
      spark: SparkSession,
      execution: StreamExecution,
      target: WriteTarget,
      settings: WriteSettings): Watch = {
    val watch = Watch(execution, target.metadata.qualifiedName, new CompletableFuture[Unit])
    val request = obj(
      "table_id" -> long(target.metadata.tableId), "app_id" -> text(execution.id.toString),
      "owner" -> text(CatalogExtWrite.owner(spark)))
    settings.forService.foreach { case (name, value) => request.set[JsonNode](name, value) }
    val thread = new Thread(() => try finish(execution, target, request) finally {
      watches.remove(execution.runId)
      watch.done.complete(())
    }, s"catalog-ext-end-of-query-${execution.id}")
    thread.setDaemon(true)
    thread.start()
    watch
  }

  private def finish(execution: StreamExecution, target: WriteTarget, request: JsonNode): Unit = try {
    execution.awaitTermination()
    if (endedByItself(execution)) {
      val answer = target.client.call("writes/release", request, limited = false)
      if (answer.field("released").asBoolean()) logInfo(s"Query ${execution.id} has ended: the partitions of " +
        s"${target.tableName} that waited for their time are committed, version ${answer.field("version").asLong()}")
    }
  } catch {
    case _: StreamingQueryException => // The query failed; nothing is committed, because a restart continues it.
    case NonFatal(e) => logError(s"Query ${execution.id} has ended, but partitions of ${target.tableName} that " +
      "waited for their time could not be committed. They are committed when the query is run again to its end.", e)
  }

  /**
   * Whether the query ended because no further rows can arrive. A query that was stopped was in the middle of a batch,
   * or has a batch that did not run.
   */
  private def endedByItself(execution: StreamExecution): Boolean = execution.getLatestExecutionContext() match {
    case last: MicroBatchExecutionContext =>
      !last.isCurrentBatchConstructed ||
        (execution.trigger == OneTimeTrigger && execution.commitLog.getLatestBatchId().contains(last.batchId))
    case _ => false
  }
}
