package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.execution.streaming.{checkpointing, runtime}

/** The classes of streaming queries, whose packages differ between releases. */
object Streaming {
  type StreamExecution = runtime.StreamExecution
  type MicroBatchExecutionContext = runtime.MicroBatchExecutionContext
  type HDFSMetadataLog[T <: AnyRef] = checkpointing.HDFSMetadataLog[T]
  type SerializedOffset = runtime.SerializedOffset

  val BatchId: String = runtime.MicroBatchExecution.BATCH_ID_KEY

  def offset(json: String): SerializedOffset = runtime.SerializedOffset(json)
}
