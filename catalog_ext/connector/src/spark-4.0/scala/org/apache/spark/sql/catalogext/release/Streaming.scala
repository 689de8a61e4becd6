package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.execution.streaming

/** Where Spark has the parts of a streaming query. */
object Streaming {
  type StreamExecution = streaming.StreamExecution
  type MicroBatchExecutionContext = streaming.MicroBatchExecutionContext
  type HDFSMetadataLog[T <: AnyRef] = streaming.HDFSMetadataLog[T]
  type SerializedOffset = streaming.SerializedOffset

  val BatchId: String = streaming.MicroBatchExecution.BATCH_ID_KEY

  def offset(json: String): SerializedOffset = streaming.SerializedOffset(json)
}
