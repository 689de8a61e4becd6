package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.execution.streaming

/** The classes of streaming queries, whose packages differ between releases. */
object Streaming {
  type StreamExecution = streaming.StreamExecution
  type MicroBatchExecutionContext = streaming.MicroBatchExecutionContext
  type HDFSMetadataLog[T <: AnyRef] = streaming.HDFSMetadataLog[T]
  type SerializedOffset = streaming.SerializedOffset

  val BatchId: String = streaming.MicroBatchExecution.BATCH_ID_KEY

  def offset(json: String): SerializedOffset = streaming.SerializedOffset(json)
}
