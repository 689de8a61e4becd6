package org.apache.spark.sql.catalogext.service

import java.io.{ByteArrayOutputStream, FilterInputStream, InputStream, IOException}

import scala.jdk.CollectionConverters._

import org.apache.arrow.memory.OutOfMemoryException
import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}

import org.apache.spark.sql.util.ArrowUtils

/** Reads Arrow IPC streams of the service, batch by batch. */
object ArrowRows {
  /** Some columns of a batch as an Arrow stream; empty where there are none. */
  def packed(batch: VectorSchemaRoot, columns: Seq[String]): Array[Byte] = {
    val output = new ByteArrayOutputStream()
    if (columns.nonEmpty) {
      val vectors = columns.map(batch.getVector)
      // It shares the vectors, which stay the batch's to close.
      val some = new VectorSchemaRoot(vectors.map(_.getField).asJava, vectors.asJava, batch.getRowCount)
      val writer = new ArrowStreamWriter(some, null, output)
      writer.writeBatch()
      writer.end()
    }
    output.toByteArray
  }

  /**
   * Gives every batch of `input` to `consume`; the vectors are valid during the call only.
   *
   * Raises BrokenAnswerException when the stream ends without Arrow's end-of-stream marker: the Arrow reader itself takes a
   * cut-off stream for a complete one.
   */
  def foreachBatch(input: InputStream)(consume: VectorSchemaRoot => Unit): Unit = foreachBatchWhile(input) { batch =>
    consume(batch)
    true
  }

  /** The same, and no further once `consume` says false. */
  def foreachBatchWhile(input: InputStream)(consume: VectorSchemaRoot => Boolean): Unit = {
    val tail = new TailInputStream(input)
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("catalog-ext answer", 0, Long.MaxValue)
    try {
      val reader = new ArrowStreamReader(tail, allocator)
      try {
        val root = arrow(tail)(reader.getVectorSchemaRoot)
        var wanted = true
        // A batch without rows is a sign of life.
        while (wanted && arrow(tail)(reader.loadNextBatch())) wanted = root.getRowCount == 0 || consume(root)
        if (wanted && !tail.endsWithEndOfStream) throw new BrokenAnswerException("the Arrow stream has no end-of-stream marker")
      } finally reader.close(false)
    } finally allocator.close()
  }

  /** What Arrow's reader says; of bytes that are not Arrow's it raises whatever happens to it. */
  private def arrow[T](input: TailInputStream)(read: => T): T =
    try read catch {
      case e: OutOfMemoryException => throw e
      case e: BrokenAnswerException => throw e
      // A server that ends closes its connections, and where the answer's length is not known that looks like its end.
      case e: IOException if input.ended => throw new BrokenAnswerException(e.getMessage, e)
      case e: RuntimeException => throw new IOException("the answer is no Arrow stream", e)
    }
}

/** Remembers the last eight bytes that were read, which must be Arrow's end-of-stream marker. */
private class TailInputStream(input: InputStream) extends FilterInputStream(input) {
  private var tail = 0L
  private var atEnd = false

  def ended: Boolean = atEnd

  /** A continuation marker followed by a length of zero. */
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

  // Arrow never marks or skips; a skip would lose the tail.
  override def markSupported(): Boolean = false
}
