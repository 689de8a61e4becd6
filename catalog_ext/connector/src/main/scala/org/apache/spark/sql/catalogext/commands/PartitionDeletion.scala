package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, KeyZone, PartitionColumns, TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, PredicateJson, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.write.WritePredicate
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructType, TimestampType}

/** DELETE and TRUNCATE of whole partitions. */
class PartitionDeletion(client: ServiceClient, catalog: String, table: TableMetadata) {
  /** The contract's predicate that is equivalent to `predicates`; None if they do not select whole partitions. */
  def translate(predicates: Array[Predicate]): Option[JsonNode] =
    WritePredicate.exact(table, predicates.toSeq, KeyZone.of(table, SQLConf.get)).map(_.getOrElse(Null))

  def delete(predicates: Array[Predicate]): Unit = send("delete", translate(predicates).getOrElse(
    throw PartitionDeletion.notOfPartitions(table, predicates.mkString(" AND "))))

  def truncateAll(): Boolean = send("truncate", Null)

  /** Truncates the partitions that match a PARTITION clause; at least one must exist. */
  def truncate(clause: Seq[KeyComparison]): Boolean = send("truncate", Null, Seq(clause))

  /** Truncates several partitions, each given by the values of all keys. */
  def truncate(all: Array[InternalRow]): Boolean =
    send("truncate", PredicateJson.or(all.toSeq.map(PartitionClauses.predicate(table, _))))

  private def send(operation: String, predicate: JsonNode, clauses: Seq[Seq[KeyComparison]] = Nil): Boolean = {
    val request = Seq(
      "table_id" -> long(table.tableId), "version" -> long(table.version),
      "operation" -> text(operation), "predicate" -> predicate, "clauses" -> PartitionClauses.json(clauses),
      "session" -> PartitionClauses.changing(catalog))
    ServiceException.translating(client.call("writes/delete", obj(request: _*), limited = false))
    true
  }
}

object PartitionDeletion {
  def notOfPartitions(table: TableMetadata, condition: String): Throwable = {
    val keys = PartitionColumns.visible(table, SQLConf.get.resolver)
    ConnectorErrors.notSupported(
      s"DELETE removes whole partitions of table ${table.qualifiedName}, and this condition does not select whole " +
        s"partitions: $condition. Nothing was deleted. " +
        (if (keys.isEmpty) "The table has no partition columns: delete without a condition, or write the rows that stay: " +
          "INSERT OVERWRITE ... from a query over the table."
        else s"Compare partition columns (${keys.fieldNames.mkString(", ")}) with constants. To delete single rows, write " +
          "their partitions anew without them: INSERT OVERWRITE ... PARTITION, or INSERT INTO ... REPLACE WHERE, " +
          "from a query over them.") +
        (if (hasTimes(keys)) " Name the partition of a TIMESTAMP near a clock change in ALTER TABLE ... DROP PARTITION." else ""))
  }

  def notReplaceable(table: TableMetadata, condition: String): Throwable = {
    val keys = PartitionColumns.visible(table, SQLConf.get.resolver)
    ConnectorErrors.notSupported(
      s"An overwrite replaces whole partitions of table ${table.qualifiedName}, and this condition does not select whole " +
        s"partitions: $condition. Nothing was written. " +
        (if (keys.isEmpty) "The table has no partition columns: overwrite it without a condition, from a query that also " +
          "has the rows that stay."
        else s"Compare partition columns (${keys.fieldNames.mkString(", ")}) with constants. To replace single rows, " +
          "overwrite their partitions from a query that also has the rows that stay.") +
        (if (hasTimes(keys)) " Name the partition of a TIMESTAMP near a clock change in INSERT OVERWRITE ... PARTITION." else ""))
  }

  /** Whether a comparison of a key can be refused because it is near a clock change. */
  private def hasTimes(keys: StructType): Boolean = keys.exists(_.dataType == TimestampType)
}

/** Refuses UPDATE and MERGE with an alternative. Spark's own error blames the table. */
object RefuseRowChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case update: UpdateTable => refuse("UPDATE", update.table)
      case merge: MergeIntoTable => refuse("MERGE", merge.targetTable)
      case _ =>
    }
    plan
  }

  private def refuse(statement: String, target: LogicalPlan): Unit = target.foreach {
    case relation: DataSourceV2Relation if relation.table.isInstanceOf[CatalogExtTable] => throw ConnectorErrors.notSupported(
      s"$statement changes single rows, and files of table ${relation.table.name()} are replaced by whole partitions, as " +
        "Hive's. Write the partitions anew: INSERT OVERWRITE ... PARTITION, or INSERT INTO ... REPLACE WHERE, from a query " +
        "over them.")
    case _ =>
  }
}
