package org.apache.spark.sql.catalogext.service

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging

/**
 * A failure that is worth a retry: the service is unreachable, the connection broke, or a store is busy.
 *
 * @param error the error for the user if the retries fail
 * @param sent whether the service may have executed the request
 */
private[service] class PassingFailure(val error: Throwable, val sent: Boolean) extends RuntimeException(error)

/**
 * Retries failed requests for as long as a restart of the service may take. Each attempt uses the next address; after
 * all addresses have failed, there is a pause.
 *
 * If the address has never answered, it may be wrong, and the retries end early.
 *
 * @param patience how long a request is retried
 */
private[service] class RepeatedRequests(addresses: ServiceAddresses, patience: Duration) extends Logging {
  import RepeatedRequests._

  /**
   * The result of `attempt`, which is called with an address, and again after a failure that permits a retry.
   *
   * @param repeatable whether the operation is idempotent
   */
  def apply[T](operation: String, repeatable: Boolean, patient: Boolean)(attempt: String => T): T = {
    val limit = if (patient && addresses.answered) patience else FirstPatience
    val began = System.nanoTime()

    def tried(address: String): Either[PassingFailure, T] =
      try Right(attempt(address)) catch {
        case e: PassingFailure =>
          addresses.leave(address)
          if (repeatable || !e.sent) Left(e) else throw e.error
      }

    @tailrec def next(tries: Int, pauseMillis: Long, known: Option[Long]): T = tried(addresses.current) match {
      case Right(result) => result
      case Left(failure) =>
        // If the request was sent, the service was alive then and may have worked on it for long. So the time for
        // retries begins now.
        val end = known.getOrElse((if (failure.sent) System.nanoTime() else began) + limit.toNanos)
        val allTried = tries % addresses.all.size == 0
        if (allTried && System.nanoTime() + pauseMillis * 1000000L > end) throw failure.error
        if (known.isEmpty)
          logWarning(s"'$operation' is asked again for up to ${limit.toSeconds} s: ${failure.error.getMessage}")
        if (allTried) Thread.sleep(pauseMillis)
        next(tries + 1, if (allTried) math.min(pauseMillis * 2, LongestPauseMillis) else pauseMillis, Some(end))
    }
    next(tries = 1, FirstPauseMillis, known = None)
  }
}

private[service] object RepeatedRequests {
  private val FirstPatience = Duration.ofMillis(1000)
  private val FirstPauseMillis = 100L
  private val LongestPauseMillis = 5000L

  /**
   * Idempotent operations, which may be sent again: reads, facts about files, and the begin of a write, which has its
   * transaction's id. `writes/commit` is retried by `WriteTransaction`.
   */
  private val Repeatable = Set(
    "namespaces/list", "namespaces/load", "tables/list", "tables/load", "tables/plan", "tables/changes",
    "tables/metadata", "tables/hive_clauses", "partitions/list", "partitions/groups",
    "paths/load", "paths/plan",
    "settings/load", "settings/resolve", "views/list", "procedures/list", "statistics/put",
    "writes/begin", "writes/locations", "writes/stage", "writes/heartbeat")

  def isRepeatable(operation: String, body: JsonNode): Boolean =
    Repeatable.contains(operation) || body.path("dry_run").asBoolean(false)
}

/**
 * The addresses of the services of one index. Requests go to the one that answered last, initially to the first.
 *
 * @param all one address, or several services of one index that can replace each other
 */
private[service] class ServiceAddresses private (val all: Seq[String]) {
  @volatile private var chosen = 0
  /** Whether any service has answered this driver. */
  @volatile var answered = false
  /** The id of the index, from the first answer that names it. All other services must have the same index. */
  @volatile var index: Option[String] = None

  def current: String = all(chosen)

  def several: Boolean = all.size > 1

  /** For messages: `http://a:8765 and http://b:8765`. */
  def names: String = if (several) s"${all.init.mkString(", ")} and ${all.last}" else all.head

  /** Directs further requests to the next address, unless another thread has left this address already. */
  def leave(address: String): Unit = synchronized {
    if (current == address) chosen = (chosen + 1) % all.size
  }
}

private[service] object ServiceAddresses {
  // The addresses are shared by all sessions of the driver, so that a new session does not try an address that others
  // have found dead.
  private val known = new ConcurrentHashMap[String, ServiceAddresses]()

  /** The addresses of a comma-separated list; one instance per list in this driver. */
  def of(list: String): ServiceAddresses = known.computeIfAbsent(list, text => new ServiceAddresses(text.split(',').toSeq))
}
