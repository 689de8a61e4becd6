package org.apache.spark.sql.catalogext.stream

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.release.Streaming
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.write.{ApplicationBatch, CatalogExtWrite, DiscardingWriterFactory, RunningWrite,
  WriteSettings, WriteTarget}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}

/**
 * Writes the epochs of a streaming query: each is one transaction, committed once under the query's id and the
 * epoch's number, so that a restarted query repeats nothing.
 *
 * Spark makes one for every epoch, of the table as it was when the query started.
 */
class CatalogExtStreamingWrite(
    spark: SparkSession,
    target: WriteTarget,
    settings: WriteSettings,
    info: LogicalWriteInfo)
  extends StreamingWrite with Logging {

  private val queryId = info.queryId()
  private val rows = StreamingRows(target, info)
  private var running: Option[RunningWrite] = None

  StreamingQueries.checkWatermark(spark, queryId, target, settings)
  StreamingQueries.watch(spark, queryId, target, settings)

  override def createStreamingWriterFactory(physical: PhysicalWriteInfo): StreamingDataWriterFactory = {
    // Others may have written since the query started: conflicts are looked for from now on.
    val now = target.copy(metadata = reload(), operation = Some("STREAMING"))
    running = new CatalogExtWrite(spark, now, settings, rows.info).start(Some(ApplicationBatch(queryId, epoch)))
    if (running.isEmpty) logInfo(s"Epoch $epoch of query $queryId is committed to ${target.tableName} already: " +
      "nothing is written")
    new EpochWriterFactory(
      running.fold[DataWriterFactory](new DiscardingWriterFactory)(_.writerFactory), rows.conversion)
  }

  override def commit(epochId: Long, messages: Array[WriterCommitMessage]): Unit =
    running.foreach(_.commit(messages.toSeq, Some(StreamingQueries.watermarkMillis(spark, queryId))))

  override def abort(epochId: Long, messages: Array[WriterCommitMessage]): Unit =
    running.foreach(_.abort(s"epoch $epochId of query $queryId failed"))

  // Spark gives the epoch only at its commit; the query's thread carries the number.
  private def epoch: Long = Option(spark.sparkContext.getLocalProperty(Streaming.BatchId)).getOrElse(
    throw ConnectorErrors.notSupported(
      s"Table ${target.tableName} is written in micro-batches: use another trigger than a continuous one.")).toLong

  private def reload(): TableMetadata = {
    val request = obj("namespace" -> text(target.metadata.namespace), "name" -> text(target.metadata.name))
    val now = TableMetadata.fromJson(ServiceException.translating(target.client.call("tables/load", request)))
    val before = target.metadata
    val same = now.tableId == before.tableId && now.columns == before.columns &&
      now.partitionColumns == before.partitionColumns
    if (!same) throw ConnectorErrors.runtime(ConnectorErrors.StreamChanged,
      s"Table ${target.tableName} has other columns than when the query started, or is another table. Restart the " +
        "query.", Map("table" -> target.tableName))
    now
  }
}

private class EpochWriterFactory(inner: DataWriterFactory, conversion: Option[RowConversion])
  extends StreamingDataWriterFactory {

  override def createWriter(partitionId: Int, taskId: Long, epochId: Long): DataWriter[InternalRow] = {
    val writer = inner.createWriter(partitionId, taskId)
    conversion.fold(writer)(new ConvertingWriter(writer, _))
  }
}
