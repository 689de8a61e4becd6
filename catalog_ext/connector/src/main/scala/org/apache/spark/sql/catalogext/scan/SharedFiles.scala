package org.apache.spark.sql.catalogext.scan

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.mutable

/** What the references of a statement to one table hold together, for as long as one of them does. */
class SharedFiles {
  /** Begins the names by which the service knows the statements that read the table. */
  val statement: String = UUID.randomUUID().toString

  private val known = mutable.HashMap.empty[Any, WeakReference[HeldFiles]]

  /** The place of the files that are asked for in this way. */
  private[catalogext] def of(way: Any): HeldFiles = synchronized {
    known.get(way).flatMap(held => Option(held.get)).getOrElse {
      val held = new HeldFiles
      known.filterInPlace((_, other) => other.get != null)
      known(way) = new WeakReference(held)
      held
    }
  }
}

/** Files that the first who wants them asks for; who reads in another way does not wait for that. */
private[catalogext] class HeldFiles {
  private var known: Option[ChosenFiles] = None

  /** The files; `fetch` is the caller's own, so that no thread ever waits for what another index has locked. */
  def files(fetch: => ChosenFiles): ChosenFiles = synchronized {
    if (known.isEmpty) known = Some(fetch)
    known.get
  }
}
