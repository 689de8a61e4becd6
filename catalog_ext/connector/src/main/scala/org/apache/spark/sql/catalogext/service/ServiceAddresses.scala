package org.apache.spark.sql.catalogext.service

import java.util.concurrent.ConcurrentHashMap

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
