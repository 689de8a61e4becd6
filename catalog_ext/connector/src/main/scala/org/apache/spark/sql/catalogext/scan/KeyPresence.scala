package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

/**
 * Which values of keys have rows, for an answer that asks no more than that: of each value one partition with rows is
 * enough, whatever the others have.
 *
 * @param groups the places of the keys whose values belong together; nothing for an answer that counts rows
 */
private[scan] class KeyPresence(keys: StructType, groups: Seq[Seq[Int]]) {
  private type Value = (Int, Seq[Any])
  private val present = mutable.HashSet.empty[Value]
  private val unknown = mutable.HashSet.empty[Value]
  private var tracked = groups.nonEmpty

  /** Whether values are distinguished: not of an answer that counts rows, and not of very many, which would fill the driver. */
  def isTracked: Boolean = tracked

  /** A partition, or some, with these values has rows. */
  def add(values: InternalRow): Unit = note(present, values)

  /** Of a partition with these values it is not known whether it has rows. */
  def addUnknown(values: InternalRow): Unit = note(unknown, values)

  /** Those of the values of a partition of which no partition is known to have rows. */
  def missing(values: InternalRow): Seq[(Int, Seq[Any])] = of(values).filterNot(present)

  /** Whether each value that may be there is known to be. */
  def isKnown: Boolean = tracked && unknown.forall(present)

  private def of(values: InternalRow): Seq[Value] = groups.zipWithIndex.map { case (places, group) =>
    (group, places.map(at => values.get(at, keys(at).dataType)))
  }

  private def note(among: mutable.HashSet[Value], values: InternalRow): Unit = if (tracked) {
    among ++= of(values)
    if (present.size + unknown.size > IndexAnswers.MostValues * groups.length) {
      tracked = false
      present.clear()
      unknown.clear()
    }
  }
}
