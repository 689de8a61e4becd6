package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.expressions._

/**
 * Hive's strict mode: a partitioned table is read with a predicate on one of its partition columns, or not at all.
 *
 * The check uses the filters that were pushed into the scan: a predicate inside of a view counts, and so does one that
 * follows from a join's condition and a predicate on the other side. What a join finds only while running does not.
 */
object StrictMode {
  /** Resolved by the service: what asks for the predicate, for people. */
  val Setting = "strict"
  val Check = "hive.strict.checks.no.partition.filter"

  /** Raises an error unless one of `filters` limits one of `keys`. */
  def check(table: String, keys: Seq[String], filters: Seq[Expression], said: String): Unit =
    if (!isSatisfied(keys, filters))
      throw ConnectorErrors.analysis(ConnectorErrors.PartitionPredicateRequired,
        s"Strict mode, $said, refuses to read table $table without a predicate on one of its partition columns " +
          s"(${keys.mkString(", ")}). Add one that constants decide, such as WHERE ${keys.head} = …; IS NOT NULL " +
          s"and subqueries are none. SET $Check = false allows such a read.",
        Map("table" -> table, "columns" -> keys.mkString(", ")))

  def isSatisfied(keys: Seq[String], filters: Seq[Expression]): Boolean =
    keys.isEmpty || filters.exists(limits(_, keys.toSet + FileColumns.Partition))

  // Spark adds IS NOT NULL by itself for every join and comparison, so that one says nothing.
  private def limits(filter: Expression, keys: Set[String]): Boolean = filter match {
    case And(left, right) => limits(left, keys) || limits(right, keys)
    case Or(left, right) => limits(left, keys) && limits(right, keys)
    case IsNotNull(_) => false
    case comparison: BinaryComparison if comparison.left.semanticEquals(comparison.right) => false
    case other => other.references.exists(a => keys.contains(a.name))
  }
}
