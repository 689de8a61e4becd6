package org.apache.spark.sql.catalogext.scan

import java.util.Locale

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Hive's strict mode: a partitioned table is read with a predicate on one of its partition columns, or not at all.
 *
 * It goes by the filters that were pushed into the scan: a predicate inside of a view counts, and so does one that
 * follows from a join's condition and a predicate on the other side. What a join finds only while running does not.
 */
object StrictMode {
  val Check = "hive.strict.checks.no.partition.filter"
  val Mode = "hive.mapred.mode"

  /** Where strict mode is on for reads of `table`: the setting that says so. */
  def setting(
      catalogName: String,
      table: TableMetadata,
      read: CaseInsensitiveStringMap,
      conf: SQLConf): Option[String] = {
    val levels: Seq[(String, String => Option[String])] = Seq(
      "option of the read" -> (key => Option(read.get(key))),
      "session" -> (key => Option(conf.getConfString(key, null))),
      s"catalog $catalogName" -> (key => Option(conf.getConfString(s"spark.sql.catalog.$catalogName.$key", null))),
      s"table ${table.qualifiedName}" -> (key => table.property(key)))
    levels.iterator.flatMap { case (level, value) =>
      // The newer key goes before the older one.
      value(Check).map(text => (isOn(Check, text, "true", "false"), s"$Check = $text ($level)"))
        .orElse(value(Mode).map(text => (isOn(Mode, text, "strict", "nonstrict"), s"$Mode = $text ($level)")))
    }.nextOption().collect { case (true, said) => said }
  }

  private def isOn(key: String, text: String, on: String, off: String): Boolean =
    text.trim.toLowerCase(Locale.ROOT) match {
      case `on` => true
      case `off` => false
      case _ => throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
        s"'$text' is no value of $key: give '$on' or '$off'.", Map("value" -> text))
    }

  /** Raises an error unless one of `filters` limits one of `keys`. */
  def check(table: String, keys: Seq[String], filters: Seq[Expression], said: String): Unit =
    if (keys.nonEmpty && !filters.exists(limits(_, keys.toSet + FileColumns.Partition)))
      throw ConnectorErrors.analysis(ConnectorErrors.PartitionPredicateRequired,
        s"Strict mode, $said, refuses to read table $table without a predicate on one of its partition columns " +
          s"(${keys.mkString(", ")}). Add one that constants decide, such as WHERE ${keys.head} = …; IS NOT NULL " +
          s"and subqueries are none. SET $Check = false allows such a read.",
        Map("table" -> table, "columns" -> keys.mkString(", ")))

  // Spark adds IS NOT NULL by itself for every join and comparison, so that one says nothing.
  private def limits(filter: Expression, keys: Set[String]): Boolean = filter match {
    case And(left, right) => limits(left, keys) || limits(right, keys)
    case Or(left, right) => limits(left, keys) && limits(right, keys)
    case IsNotNull(_) => false
    case comparison: BinaryComparison if comparison.left.semanticEquals(comparison.right) => false
    case other => other.references.exists(a => keys.contains(a.name))
  }
}
