package org.apache.spark.sql.catalogext.service

import java.util.Locale

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.util.quoteIfNeeded

/**
 * Builds the contract's predicates on partition columns (`docs/spec/service.md`). Values are canonical text, or the
 * JSON null for NULL.
 */
object PredicateJson {
  val True: JsonNode = obj("op" -> text("true"))
  val False: JsonNode = obj("op" -> text("false"))

  /**
   * A predicate that is true if all (below: any) of `parts`, at least one, are. They form one list instead of nested
   * pairs, because the service limits the depth of a predicate.
   */
  def and(parts: Seq[JsonNode]): JsonNode = joined("and", parts)
  def or(parts: Seq[JsonNode]): JsonNode = joined("or", parts)
  def not(part: JsonNode): JsonNode = obj("op" -> text("not"), "arg" -> part)

  /** `op` is an operator of the contract: `=`, `<=>`, `<`, `starts_with` and so on, with SQL's semantics for NULL. */
  def comparison(op: String, column: String, value: JsonNode): JsonNode =
    obj("op" -> text(op), "column" -> text(column), "value" -> value)

  def in(column: String, values: Seq[JsonNode]): JsonNode =
    obj("op" -> text("in"), "column" -> text(column), "values" -> arr(values))

  def isNull(column: String): JsonNode = obj("op" -> text("is_null"), "column" -> text(column))
  def isNotNull(column: String): JsonNode = obj("op" -> text("is_not_null"), "column" -> text(column))

  /**
   * A predicate that is true if the column has the value. NULL is a value here, that of the default partition, as in a
   * PARTITION clause.
   */
  def has(column: String, value: JsonNode): JsonNode =
    if (value.isNull) isNull(column) else comparison("=", column, value)

  /** The predicate in SQL syntax, for messages. Values are quoted as strings if their types are unknown here. */
  def sql(predicate: JsonNode): String = {
    def column = quoteIfNeeded(predicate.string("column"))
    def value = literal(predicate.field("value"))
    predicate.string("op") match {
      case op @ ("and" | "or") => predicate.items("args").map(sql).mkString("(", s" ${op.toUpperCase(Locale.ROOT)} ", ")")
      case "not" => s"(NOT ${sql(predicate.field("arg"))})"
      case op @ ("true" | "false") => op
      case "is_null" => s"($column IS NULL)"
      case "is_not_null" => s"($column IS NOT NULL)"
      case "in" => predicate.items("values").map(literal).mkString(s"($column IN (", ", ", "))")
      case op @ ("starts_with" | "ends_with" | "contains") => s"${op.replace("_", "")}($column, $value)"
      case op => s"($column ${op.toUpperCase(Locale.ROOT)} $value)"
    }
  }

  private def literal(value: JsonNode): String =
    if (value.isTextual) Literal(value.asText()).sql else value.toString.toUpperCase(Locale.ROOT)

  private def joined(op: String, parts: Seq[JsonNode]): JsonNode =
    if (parts.length == 1) parts.head else obj("op" -> text(op), "args" -> arr(parts))
}

/** The requests `statistics/put`, by which ANALYZE and queries record row counts and statistics of files. */
object StatisticsRequests {
  /** The contract's maximum number of files in one request. */
  val FilesAtOnce = 1000

  /**
   * An entry of `statistics/put` for a file of the index.
   *
   * @param statistics by column; null if only the rows were counted
   */
  def file(
      partition: String, path: String, size: Long, modifiedMillis: Long, rows: Long, statistics: JsonNode): JsonNode = obj(
    "partition" -> text(partition), "path" -> text(path), "size" -> long(size), "modified_ms" -> long(modifiedMillis),
    "rows" -> long(rows), "statistics" -> statistics)

  def of(table: TableMetadata, files: Seq[JsonNode], more: (String, JsonNode)*): JsonNode = obj(Seq(
    "table_id" -> long(table.tableId), "version" -> long(table.version), "files" -> arr(files)) ++ more: _*)
}
