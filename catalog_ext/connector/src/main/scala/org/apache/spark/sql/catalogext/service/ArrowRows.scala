package org.apache.spark.sql.catalogext.service

import java.io.{ByteArrayOutputStream, FilterInputStream, InputStream, IOException}

import scala.jdk.CollectionConverters._

import org.apache.arrow.memory.OutOfMemoryException
import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}

import org.apache.spark.sql.util.ArrowUtils

/** Reads Arrow IPC streams of the service, batch by batch. */
object ArrowRows {
  /** Some columns of a batch as an Arrow stream; empty without columns. */
  def packed(batch: VectorSchemaRoot, columns: Seq[String]): Array[Byte] = {
    val output = new ByteArrayOutputStream()
    if (columns.nonEmpty) {
      val vectors = columns.map(batch.getVector)
      // The new root shares the vectors with the batch, which closes them.
      val some = new VectorSchemaRoot(vectors.map(_.getField).asJava, vectors.asJava, batch.getRowCount)
      val writer = new ArrowStreamWriter(some, null, output)
      writer.writeBatch()
      writer.end()
    }
    output.toByteArray
  }

  /**
   * Calls `consume` with every batch of `input`; the vectors are valid only during the call.
   *
   * Raises BrokenAnswerException if the stream ends without Arrow's end-of-stream marker. The Arrow reader itself
   * accepts a truncated stream as complete.
   */
  def foreachBatch(input: InputStream)(consume: VectorSchemaRoot => Unit): Unit = foreachBatchWhile(input) { batch =>
    consume(batch)
    true
  }

  /** Calls `consume` with every batch of `input` until it returns false. */
  def foreachBatchWhile(input: InputStream)(consume: VectorSchemaRoot => Boolean): Unit = {
    val tail = new TailInputStream(input)
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("catalog-ext answer", 0, Long.MaxValue)
    try {
      val reader = new ArrowStreamReader(tail, allocator)
      try {
        val root = arrow(tail)(reader.getVectorSchemaRoot)
        var wanted = true
        // A batch without rows is a keepalive.
        while (wanted && arrow(tail)(reader.loadNextBatch())) wanted = root.getRowCount == 0 || consume(root)
        if (wanted && !tail.endsWithEndOfStream) throw new BrokenAnswerException("the Arrow stream has no end-of-stream marker")
      } finally reader.close(false)
    } finally allocator.close()
  }

  /** Converts errors of Arrow's reader. For invalid bytes it can raise any exception. */
  private def arrow[T](input: TailInputStream)(read: => T): T =
    try read catch {
      case e: OutOfMemoryException => throw e
      case e: BrokenAnswerException => throw e
      // A closed connection looks like the end of an answer without content length, so an error at the end of the input
      // means a broken answer.
      case e: IOException if input.ended => throw new BrokenAnswerException(e.getMessage, e)
      case e: RuntimeException => throw new IOException("the answer is no Arrow stream", e)
    }
}

/** Remembers the last eight bytes, which must be Arrow's end-of-stream marker. */
private class TailInputStream(input: InputStream) extends FilterInputStream(input) {
  private var tail = 0L
  private var atEnd = false

  def ended: Boolean = atEnd

  /** Arrow's end-of-stream marker: a continuation marker followed by a length of zero. */
  def endsWithEndOfStream: Boolean = tail == 0xFFFFFFFF00000000L

  override def read(): Int = {
    val byte = super.read()
    if (byte >= 0) tail = (tail << 8) | byte else atEnd = true
    byte
  }

  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val count = super.read(buffer, offset, length)
    if (count < 0) atEnd = true
    var i = math.max(0, count - 8)
    while (i < count) {
      tail = (tail << 8) | (buffer(offset + i) & 0xFF)
      i += 1
    }
    count
  }

  // Not supported: Arrow never marks or skips, and a skip would miss the last bytes.
  override def markSupported(): Boolean = false
}
