package org.apache.spark.sql.catalogext.service

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging

/**
 * What may pass by itself: the service cannot be reached, the connection broke, or the answer says that a store is busy.
 *
 * @param error the error that the user gets when it does not pass
 * @param sent whether the service may have acted upon the request
 */
private[service] class PassingFailure(val error: Throwable, val sent: Boolean) extends RuntimeException(error)

/**
 * Repeats requests that failed in passing, as long as a restart of the service may take. Each attempt after the first goes
 * to the next address, and a pause is made when all of them have been tried.
 *
 * A service that has never answered is no service that is started again: the address may be wrong, and is given up soon.
 *
 * @param patience how long a request is repeated
 */
private[service] class RepeatedRequests(addresses: ServiceAddresses, patience: Duration) extends Logging {
  import RepeatedRequests._

  /**
   * The result of `attempt`, which gets an address and is made again where its failure lets it.
   *
   * @param repeatable whether acting twice is acting once
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
        // A service that had begun to work on a long request was there until now.
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
   * Those of which acting twice is acting once: what only reads, facts about files, and a write's begin, which has
   * its transaction's id. `writes/commit` is asked again by `WriteTransaction`, which knows when.
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
 * The addresses of the services of one index. Requests go to the one that answered last, at first to the first.
 *
 * @param all one address, or several that are one another's stand-ins
 */
private[service] class ServiceAddresses private (val all: Seq[String]) {
  @volatile private var chosen = 0
  /** Whether any of them has answered this driver. */
  @volatile var answered = false
  /** The index of the first service that has answered and says which it is of: its stand-ins are of the same. */
  @volatile var index: Option[String] = None

  def current: String = all(chosen)

  def several: Boolean = all.size > 1

  /** For people: `http://a:8765 and http://b:8765`. */
  def names: String = if (several) s"${all.init.mkString(", ")} and ${all.last}" else all.head

  /** Lets requests go to the next one, unless another thread has noticed before that this one does not answer. */
  def leave(address: String): Unit = synchronized {
    if (current == address) chosen = (chosen + 1) % all.size
  }
}

private[service] object ServiceAddresses {
  // A new session does not ask again the one that others have found dead.
  private val known = new ConcurrentHashMap[String, ServiceAddresses]()

  /** Those of a list with commas; the same for all of this driver with the same list. */
  def of(list: String): ServiceAddresses = known.computeIfAbsent(list, text => new ServiceAddresses(text.split(',').toSeq))
}
