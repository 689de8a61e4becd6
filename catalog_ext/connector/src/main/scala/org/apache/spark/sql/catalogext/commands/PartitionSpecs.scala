package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, PartitionNames, TableMetadata}
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, PredicateJson}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.ResolvedPartitionSpec
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, GenericInternalRow, Literal}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StringType, StructField}
import org.apache.spark.unsafe.types.UTF8String

/** One comparison of a PARTITION clause. Values are text as Spark's parser gives it; null stands for NULL. */
case class KeyComparison(key: String, operator: String, values: Seq[String])

/**
 * The PARTITION clauses of statements on a table: names in the table's spelling, values of the keys' types.
 *
 * Each way in which a clause can be wrong is an error of its own. Spark's own resolution would make NULL of a value
 * that does not fit its type where ANSI mode is off, and so drop the default partition.
 */
class PartitionSpecs(table: TableMetadata) {
  private val conf = SQLConf.get
  private val zone = conf.sessionLocalTimeZone
  private val keys = table.partitionColumns

  /** Raises an error where the table has no such key. */
  def check(name: String): Unit = key(name)

  /** A spec that may name some of the keys only; its names come in the table's order. */
  def partial(spec: Map[String, String]): ResolvedPartitionSpec = {
    val named = spec.toSeq.map { case (name, value) => key(name) -> value }
    named.groupBy(_._1.name).collectFirst { case (name, several) if several.length > 1 => throw doubled(name) }
    val ordered = keys.flatMap(field => named.find(_._1.name == field.name))
    ResolvedPartitionSpec(
      ordered.map(_._1.name).toSeq,
      new GenericInternalRow(ordered.map { case (field, value) => typed(field, value) }.toArray[Any]))
  }

  /** A spec that must name every key. */
  def full(spec: Map[String, String], command: String): ResolvedPartitionSpec = {
    val found = partial(spec)
    val missing = keys.fieldNames.filterNot(found.names.contains)
    if (missing.nonEmpty) throw ConnectorErrors.analysis(ConnectorErrors.PartitionKeyMissing,
      s"$command on table ${table.qualifiedName} needs a value for each partition column " +
        s"(${keys.fieldNames.mkString(", ")}), and none is given for ${missing.mkString(", ")}.",
      Map("table" -> table.qualifiedName, "keys" -> missing.mkString(", ")))
    found
  }

  /** The contract's spec of these values. */
  def json(names: Seq[String], values: InternalRow): JsonNode = obj(names.zipWithIndex.map { case (name, i) =>
    val field = key(name)
    field.name -> canonical(field, if (values.isNullAt(i)) null else values.get(i, PartitionColumns.plain(field.dataType)))
  }: _*)

  def json(spec: ResolvedPartitionSpec): JsonNode = json(spec.names, spec.ident)

  /** The values as text, as a spec would say them. */
  def texts(spec: ResolvedPartitionSpec): Seq[(String, String)] = {
    val values = json(spec)
    spec.names.map(name => name -> (if (values.get(name).isNull) "null" else values.get(name).asText()))
  }

  /** The contract's predicate of the partitions with these values. */
  def predicateOf(names: Seq[String], values: InternalRow): JsonNode = {
    val spec = json(names, values)
    PredicateJson.and(names.map(name => PredicateJson.has(key(name).name, spec.get(key(name).name))))
  }

  /** The contract's predicate of one PARTITION clause. */
  def predicate(clause: Seq[KeyComparison]): JsonNode = {
    if (keys.isEmpty) throw unpartitioned
    clause.filter(_.operator == "=").groupBy(comparison => key(comparison.key).name).collectFirst {
      case (name, several) if several.length > 1 => throw doubled(name)
    }
    PredicateJson.and(clause.map(predicate))
  }

  private def predicate(comparison: KeyComparison): JsonNode = {
    val field = key(comparison.key)
    val values = comparison.values.map(raw => canonical(field, typed(field, raw)))
    (comparison.operator, values) match {
      case ("=", Seq(value)) => PredicateJson.has(field.name, value)
      case ("!=", Seq(Null)) => PredicateJson.isNotNull(field.name)
      case ("in", several) if several.contains(Null) =>
        val others = several.filter(_ != Null)
        PredicateJson.or(PredicateJson.isNull(field.name) +:
          Option.when(others.nonEmpty)(PredicateJson.in(field.name, others)).toSeq)
      case ("in", several) => PredicateJson.in(field.name, several)
      case (operator, Seq(Null)) => throw ConnectorErrors.analysis(ConnectorErrors.InvalidValue,
        s"PARTITION (${field.name} $operator NULL) is true for no partition of table ${table.qualifiedName}: NULL has " +
          s"no order. Say ${field.name} = NULL for the default partition.", Map("column" -> field.name))
      case (operator, Seq(value)) => PredicateJson.comparison(operator, field.name, value)
    }
  }

  private def key(name: String): StructField = keys.find(field => conf.resolver(field.name, name)).getOrElse {
    if (keys.isEmpty) throw unpartitioned
    throw ConnectorErrors.analysis(ConnectorErrors.PartitionKeyUnknown,
      s"'$name' is no partition column of table ${table.qualifiedName}; those are ${keys.fieldNames.mkString(", ")}.",
      Map("table" -> table.qualifiedName, "key" -> name))
  }

  private def typed(field: StructField, raw: String): Any = {
    val dataType = PartitionColumns.plain(field.dataType)
    def refused(why: String) = ConnectorErrors.analysis(ConnectorErrors.InvalidValue,
      s"PARTITION (${field.name} = '$raw') of table ${table.qualifiedName}: $why",
      Map("table" -> table.qualifiedName, "column" -> field.name, "value" -> raw))
    val value = if (raw == null) null else PartitionNames.unpadded(field.dataType, raw)
    if (value == null || value == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) null
    else if (value.isEmpty) throw refused(
      s"an empty value names no partition; say ${field.name} = NULL for the default partition.")
    else Option(Cast(Literal(UTF8String.fromString(value), StringType), dataType, Some(zone), EvalMode.TRY).eval())
      .getOrElse(throw refused(s"'$raw' is no ${field.dataType.sql}."))
  }

  private def canonical(field: StructField, value: Any): JsonNode = if (value == null) Null else {
    val shown = PartitionNames.text(Literal(value, PartitionColumns.plain(field.dataType)), zone).eval().toString
    // Rows that Spark resolved itself have CHAR values padded.
    text(PartitionNames.unpadded(field.dataType, shown))
  }

  private def doubled(name: String): Throwable = ConnectorErrors.analysis(ConnectorErrors.PartitionKeyDoubled,
    s"The PARTITION clause gives two values for the partition column '$name' of table ${table.qualifiedName}.",
    Map("table" -> table.qualifiedName, "key" -> name))

  def unpartitioned: Throwable = ConnectorErrors.analysis(ConnectorErrors.NotPartitioned,
    s"Table ${table.qualifiedName} has no partition columns, and so no partitions to name or to show.",
    Map("table" -> table.qualifiedName))
}
