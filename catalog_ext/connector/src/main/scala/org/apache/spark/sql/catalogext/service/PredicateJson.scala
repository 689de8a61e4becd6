package org.apache.spark.sql.catalogext.service

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.Json._

/**
 * Builds the contract's predicates on partition columns (`docs/spec/service.md`). Values are canonical text, or the
 * JSON null for NULL.
 */
object PredicateJson {
  val True: JsonNode = obj("op" -> text("true"))
  val False: JsonNode = obj("op" -> text("false"))

  /** `parts` has at least one. One list and not a chain of pairs: the service limits the depth of a predicate. */
  def and(parts: Seq[JsonNode]): JsonNode = joined("and", parts)
  def or(parts: Seq[JsonNode]): JsonNode = joined("or", parts)
  def not(part: JsonNode): JsonNode = obj("op" -> text("not"), "arg" -> part)

  /** `op` is the contract's own: `=`, `<=>`, `<`, `starts_with` and so on, with NULL as in SQL. */
  def comparison(op: String, column: String, value: JsonNode): JsonNode =
    obj("op" -> text(op), "column" -> text(column), "value" -> value)

  def in(column: String, values: Seq[JsonNode]): JsonNode =
    obj("op" -> text("in"), "column" -> text(column), "values" -> arr(values))

  def isNull(column: String): JsonNode = obj("op" -> text("is_null"), "column" -> text(column))
  def isNotNull(column: String): JsonNode = obj("op" -> text("is_not_null"), "column" -> text(column))

  /** That the column has the value, where NULL is a value as in a PARTITION clause: the default partition's. */
  def has(column: String, value: JsonNode): JsonNode =
    if (value.isNull) isNull(column) else comparison("=", column, value)

  private def joined(op: String, parts: Seq[JsonNode]): JsonNode =
    if (parts.length == 1) parts.head else obj("op" -> text(op), "args" -> arr(parts))
}
