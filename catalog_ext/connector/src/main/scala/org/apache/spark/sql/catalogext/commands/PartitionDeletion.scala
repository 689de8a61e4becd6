package org.apache.spark.sql.catalogext.commands

import java.time.ZoneId

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{PartitionFilter, PredicateTranslator}
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, PredicateJson, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.write.WritePredicate
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, Expression}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.internal.SQLConf

/** DELETE and TRUNCATE by whole partitions. */
class PartitionDeletion(client: ServiceClient, table: TableMetadata, partitions: TablePartitions) {
  private val zone = SQLConf.get.sessionLocalTimeZone

  /** The contract's predicate with the very meaning of `predicates`; None where they are not of partitions alone. */
  def translate(predicates: Array[Predicate]): Option[JsonNode] =
    WritePredicate.exact(table, predicates.toSeq, zone).map(_.getOrElse(Null))

  def delete(predicates: Array[Predicate]): Unit = send("delete", translate(predicates).getOrElse(
    throw PartitionDeletion.notOfPartitions(table, predicates.mkString(" AND "))))

  def truncateAll(): Boolean = send("truncate", Null)

  /** Empties the partitions whose `names` have `values`; raises an error where none is registered. */
  def truncate(names: Seq[String], values: InternalRow): Boolean = {
    if (partitions.matching(names, values).isEmpty) throw ConnectorErrors.analysis(
      ConnectorErrors.PartitionNotFound,
      s"Table ${table.qualifiedName} has no partition of that specification; SHOW PARTITIONS lists them.",
      Map("table" -> table.qualifiedName))
    send("truncate", exactly(PartitionFilter.equalities(partitions.schema, names, values)))
  }

  /** Empties several partitions, each given by the values of all keys. */
  def truncate(all: Array[InternalRow]): Boolean = {
    val names = partitions.schema.fieldNames.toSeq
    send("truncate", PredicateJson.or(
      all.toSeq.map(values => exactly(PartitionFilter.equalities(partitions.schema, names, values)))))
  }

  private def exactly(filters: Seq[Expression]): JsonNode = {
    val columns = partitions.schema.fieldNames.map(name => name -> name).toMap
    new PredicateTranslator(columns, ZoneId.of(zone)).exactly(filters.reduce(And(_, _))).getOrElse(
      throw PartitionDeletion.notOfPartitions(table, filters.map(_.sql).mkString(" AND ")))
  }

  private def send(operation: String, predicate: JsonNode): Boolean = {
    ServiceException.translating(client.call("writes/delete", obj(
      "table_id" -> long(table.tableId), "version" -> long(table.version),
      "operation" -> text(operation), "predicate" -> predicate), limited = false))
    true
  }
}

object PartitionDeletion {
  def notOfPartitions(table: TableMetadata, condition: String): Throwable = {
    val keys = PartitionColumns.visible(table, SQLConf.get.resolver).fieldNames
    ConnectorErrors.notSupported(
      s"Rows of table ${table.qualifiedName} go by whole partitions, and the index cannot tell the partitions of this " +
        s"condition exactly: $condition. " +
        (if (keys.isEmpty) "The table has no partition columns: delete without a condition."
        else s"Compare partition columns (${keys.mkString(", ")}) with constants."))
  }
}
