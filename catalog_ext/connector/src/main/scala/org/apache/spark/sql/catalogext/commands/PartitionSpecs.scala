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
 * The PARTITION clauses of statements that show, empty or analyze partitions: names in the table's spelling, values of
 * the keys' types. Those of statements that change partitions go to the service as they are.
 *
 * Spark's own resolution would make NULL of a value that does not fit its type where ANSI mode is off.
 */
class PartitionSpecs(table: TableMetadata) {
  private val conf = SQLConf.get
  private val zone = conf.sessionLocalTimeZone
  private val keys = table.partitionColumns
  private val errors =
    new PartitionSpecErrors(if (table.tableType == "VIEW") "view" else "table", table.qualifiedName)

  /** Raises an error where the table has no such key. */
  def check(name: String): Unit = key(name)

  /** A spec that may name some of the keys only; its names come in the table's order. */
  def partial(spec: Map[String, String]): ResolvedPartitionSpec = {
    val named = spec.toSeq.map { case (name, value) => key(name) -> value }
    named.groupBy(_._1.name).collectFirst { case (name, several) if several.length > 1 => throw errors.doubled(name) }
    val ordered = keys.flatMap(field => named.find(_._1.name == field.name))
    ResolvedPartitionSpec(
      ordered.map(_._1.name).toSeq,
      new GenericInternalRow(ordered.map { case (field, value) => typed(field, value) }.toArray[Any]))
  }

  /** A spec that must name every key. */
  def full(spec: Map[String, String]): ResolvedPartitionSpec = {
    val found = partial(spec)
    val missing = keys.fieldNames.filterNot(found.names.contains)
    if (missing.nonEmpty) throw errors.missing(missing.toSeq, keys.fieldNames.toSeq)
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


  private def key(name: String): StructField = keys.find(field => conf.resolver(field.name, name)).getOrElse {
    if (keys.isEmpty) throw errors.unpartitioned
    throw errors.unknown(name, keys.fieldNames.toSeq)
  }

  private def typed(field: StructField, raw: String): Any = {
    val dataType = PartitionColumns.plain(field.dataType)
    val value = if (raw == null) null else PartitionNames.unpadded(field.dataType, raw)
    if (value == null || value == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) null
    else if (value.isEmpty) throw errors.empty(field.name)
    else Option(Cast(Literal(UTF8String.fromString(value), StringType), dataType, Some(zone), EvalMode.TRY).eval())
      .getOrElse(throw errors.misfit(field, raw))
  }

  private def canonical(field: StructField, value: Any): JsonNode = if (value == null) Null else {
    val shown = PartitionNames.text(Literal(value, PartitionColumns.plain(field.dataType)), zone).eval().toString
    // Rows that Spark resolved itself have CHAR values padded.
    text(PartitionNames.unpadded(field.dataType, shown))
  }

  def unpartitioned: Throwable = errors.unpartitioned
}

/**
 * What a PARTITION clause can do wrong where Spark must resolve it before the service hears of it, in the service's own
 * words: `tests/contract/partition_specs.json` has them for both.
 *
 * @param kind "table" or "view"
 */
class PartitionSpecErrors(kind: String, name: String) {
  private val what = s"$kind $name"

  def unknown(key: String, keys: Seq[String]): Throwable = refused(
    s"The PARTITION clause names '$key', which is no partition column of $what; those are ${keys.mkString(", ")}.")

  def doubled(key: String): Throwable =
    refused(s"The PARTITION clause gives the partition column '$key' of $what two values.")

  def missing(names: Seq[String], keys: Seq[String]): Throwable = refused(
    s"The PARTITION clause gives no value for ${names.mkString(", ")}; this statement needs one for each partition " +
      s"column of $what (${keys.mkString(", ")}).")

  def empty(key: String): Throwable = refused(
    s"The PARTITION clause gives the partition column '$key' of $what an empty value, which names no partition; say " +
      s"$key = NULL for the default partition.")

  def unpartitioned: Throwable = refused(s"${what.capitalize} has no partition columns, and so no partitions." +
    (if (kind == "view") " Create it with PARTITIONED ON (its last columns)." else ""))

  def misfit(key: StructField, raw: String): Throwable = ConnectorErrors.analysis(ConnectorErrors.InvalidValue,
    s"Partition column ${key.name} of $what: '$raw' does not fit the type ${key.dataType.sql}.",
    Map("column" -> key.name, "value" -> raw, "type" -> key.dataType.catalogString))

  private def refused(message: String): Throwable =
    ConnectorErrors.analysis(ConnectorErrors.InvalidPartitionSpec, message, Map(kind -> name))
}
