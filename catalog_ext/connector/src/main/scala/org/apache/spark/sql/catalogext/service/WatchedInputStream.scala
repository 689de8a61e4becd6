package org.apache.spark.sql.catalogext.service

import java.io.{FilterInputStream, InputStream, IOException}
import java.time.Duration
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

/** The connection broke in the middle of an answer. Every other IOException means that the answer itself is invalid. */
private[service] class BrokenAnswerException(message: String, cause: Throwable = null) extends IOException(message, cause)

/**
 * The body of an answer, with a timeout: it fails if no byte arrives for longer than `limit`. Java's client would wait
 * forever.
 */
private[service] class WatchedInputStream(input: InputStream, limit: Duration) extends FilterInputStream(input) {
  import WatchedInputStream._

  @volatile private var readingSince = NotReading
  @volatile private var late = false
  private val check = {
    val period = math.max(limit.toMillis / 4, 1)
    Watch.scheduleWithFixedDelay(() => end(), period, period, TimeUnit.MILLISECONDS)
  }

  // Close the stream, which ends the read that has blocked for too long.
  private def end(): Unit = {
    val since = readingSince
    if (since != NotReading && System.nanoTime() - since > limit.toNanos) {
      late = true
      input.close()
    }
  }

  private def watching[T](read: => T): T = {
    readingSince = math.max(System.nanoTime(), NotReading + 1)
    try read catch {
      case e: IOException if late => throw new BrokenAnswerException(s"nothing came for ${limit.toSeconds} s", e)
      case e: IOException => throw new BrokenAnswerException(s"${e.getMessage}", e)
    } finally readingSince = NotReading
  }

  override def read(): Int = watching(super.read())
  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = watching(super.read(buffer, offset, length))

  override def close(): Unit = {
    check.cancel(false)
    super.close()
  }
}

private object WatchedInputStream {
  private val NotReading = Long.MinValue
  private val Watch: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor { task =>
    val thread = new Thread(task, "catalog-ext-answers")
    thread.setDaemon(true)
    thread
  }
}
