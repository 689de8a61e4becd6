package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.catalog.{CatalogOptions, KeyZone, PartitionColumns, PartitionNames, TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.PredicateJson
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.internal.SQLConf

/** One comparison of a PARTITION clause. Values are text as Spark's parser gives it; null stands for NULL. */
case class KeyComparison(key: String, operator: String, values: Seq[String])

/**
 * PARTITION clauses as the contract has them: names and literals as the statement does. Whether they fit the table, the
 * service says.
 */
object PartitionClauses {
  private val LockSettings = Set("hive-locks", "hive-locks.wait")

  /** `(key = value, …)`. */
  def equalities(spec: Iterable[(String, String)]): Seq[KeyComparison] =
    spec.toSeq.map { case (key, value) => KeyComparison(key, "=", Seq(value)) }

  /** The same where a key without a value stands for all its values, as in ANALYZE. */
  def some(spec: Iterable[(String, Option[String])]): Seq[KeyComparison] = spec.toSeq.map {
    case (key, Some(value)) => KeyComparison(key, "=", Seq(value))
    case (key, None) => KeyComparison(key, "any", Nil)
  }

  def json(clauses: Seq[Seq[KeyComparison]]): JsonNode =
    arr(clauses.map(clause => obj("comparisons" -> arr(clause.map(comparison)))))

  /** What the session that a statement runs in decides about its clauses. */
  def session: ObjectNode = obj(
    "zone" -> text(SQLConf.get.sessionLocalTimeZone), "case_sensitive" -> bool(SQLConf.get.caseSensitiveAnalysis))

  /** The same of a statement that changes partitions: what its session says of Hive's locks holds for it, too. */
  def changing(catalog: String): JsonNode = {
    val given = CatalogOptions.ofSession(catalog, SQLConf.get).filter { case (key, _) => LockSettings(key) }
    // Most sessions say nothing of Hive's locks.
    val fields = session
    if (given.nonEmpty) fields.set[JsonNode]("settings", map(given))
    fields
  }

  /** Puts what the session says of Hive's locks into a request that has no clauses, where it says something. */
  def putLocks(catalog: String, request: ObjectNode): Unit =
    Some(changing(catalog)).filter(_.has("settings")).foreach(request.set[JsonNode]("session", _))

  /** The fields of a request that takes clauses. */
  def fields(clauses: Seq[Seq[KeyComparison]]): Seq[(String, JsonNode)] =
    Seq("clauses" -> json(clauses), "session" -> session)

  /** The texts of a partition's typed values as a statement of the session has them, null for NULL, in the table's order. */
  def literals(table: TableMetadata, values: InternalRow): Seq[(String, String)] =
    texts(table, values, SQLConf.get.sessionLocalTimeZone)

  private def texts(table: TableMetadata, values: InternalRow, zone: String): Seq[(String, String)] =
    table.partitionColumns.toSeq.zipWithIndex.map { case (key, i) =>
      val dataType = PartitionColumns.plain(key.dataType)
      key.name -> (if (values.isNullAt(i)) null else {
        val value = Literal(values.get(i, dataType), dataType)
        // Rows that Spark resolved itself have CHAR values padded.
        PartitionNames.unpadded(key.dataType, PartitionNames.text(value, zone).eval().toString)
      })
    }

  /** The contract's predicate of the partition with these typed values. */
  def predicate(table: TableMetadata, values: InternalRow): JsonNode =
    PredicateJson.and(texts(table, values, KeyZone.of(table, SQLConf.get)).map { case (key, value) =>
      PredicateJson.has(key, text(value))
    })

  private def comparison(of: KeyComparison): JsonNode = obj(
    "column" -> text(of.key), "op" -> text(of.operator), "values" -> arr(of.values.map(text(_))))
}
