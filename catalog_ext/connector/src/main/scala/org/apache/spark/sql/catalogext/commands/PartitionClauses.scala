package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.catalog.{CatalogOptions, KeyZone, PartitionColumns, PartitionNames, TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.PredicateJson
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.internal.SQLConf

/** One comparison of a PARTITION clause. Values are texts as in Spark's parser, with null for NULL. */
case class KeyComparison(key: String, operator: String, values: Seq[String])

/**
 * Converts PARTITION clauses to the contract's form, with names and literals as in the statement. The service checks
 * whether they fit the table.
 */
object PartitionClauses {
  private val LockSettings = Set("hive-locks", "hive-locks.wait")

  /** The comparisons of a clause `(key = value, …)`. */
  def equalities(spec: Iterable[(String, String)]): Seq[KeyComparison] =
    spec.toSeq.map { case (key, value) => KeyComparison(key, "=", Seq(value)) }

  /**
   * The comparisons of a clause `(key = value, key, …)`, in which a key without a value matches all values, as in
   * ANALYZE.
   */
  def some(spec: Iterable[(String, Option[String])]): Seq[KeyComparison] = spec.toSeq.map {
    case (key, Some(value)) => KeyComparison(key, "=", Seq(value))
    case (key, None) => KeyComparison(key, "any", Nil)
  }

  def json(clauses: Seq[Seq[KeyComparison]]): JsonNode =
    arr(clauses.map(clause => obj("comparisons" -> arr(clause.map(comparison)))))

  /** The session settings that determine the meaning of the clauses, such as case sensitivity. */
  def session: ObjectNode = obj(
    "zone" -> text(SQLConf.get.sessionLocalTimeZone), "case_sensitive" -> bool(SQLConf.get.caseSensitiveAnalysis))

  /**
   * The session settings for a statement that changes partitions: those of `session`, and the session's settings for
   * Hive locks.
   */
  def changing(catalog: String): JsonNode = {
    val given = CatalogOptions.ofSession(catalog, SQLConf.get).filter { case (key, _) => LockSettings(key) }
    // Leave the field out for sessions without settings for Hive locks.
    val fields = session
    if (given.nonEmpty) fields.set[JsonNode]("settings", map(given))
    fields
  }

  /** Adds the session's settings for Hive locks, if any, to a request without clauses. */
  def putLocks(catalog: String, request: ObjectNode): Unit =
    Some(changing(catalog)).filter(_.has("settings")).foreach(request.set[JsonNode]("session", _))

  /** The fields `clauses` and `session` of a request. TIMESTAMP values are local times of `zone`. */
  def fields(
      clauses: Seq[Seq[KeyComparison]],
      zone: String = SQLConf.get.sessionLocalTimeZone): Seq[(String, JsonNode)] =
    Seq("clauses" -> json(clauses), "session" -> session.put("zone", zone))

  /** The partition values as literals of a statement in this session, in the table's order; null for NULL. */
  def literals(table: TableMetadata, values: InternalRow): Seq[(String, String)] =
    texts(table, values, SQLConf.get.sessionLocalTimeZone)

  private def texts(table: TableMetadata, values: InternalRow, zone: String): Seq[(String, String)] =
    table.partitionColumns.toSeq.zipWithIndex.map { case (key, i) =>
      val dataType = PartitionColumns.plain(key.dataType)
      key.name -> (if (values.isNullAt(i)) null else {
        val value = Literal(values.get(i, dataType), dataType)
        // Remove the padding of CHAR values: Spark has padded them in the rows of a resolved command.
        PartitionNames.unpadded(key.dataType, PartitionNames.text(value, zone).eval().toString)
      })
    }

  /** The contract's predicate for the partition with these typed values. */
  def predicate(table: TableMetadata, values: InternalRow): JsonNode =
    PredicateJson.and(texts(table, values, KeyZone.of(table, SQLConf.get)).map { case (key, value) =>
      PredicateJson.has(key, text(value))
    })

  /** The contract's predicate that a partition matches one of these clauses of equalities with canonical texts. */
  def condition(clauses: Seq[Seq[KeyComparison]]): JsonNode = PredicateJson.or(clauses.map { clause =>
    PredicateJson.and(for (equality <- clause; value <- equality.values) yield PredicateJson.has(equality.key, text(value)))
  })

  private def comparison(of: KeyComparison): JsonNode = obj(
    "column" -> text(of.key), "op" -> text(of.operator), "values" -> arr(of.values.map(text(_))))
}
