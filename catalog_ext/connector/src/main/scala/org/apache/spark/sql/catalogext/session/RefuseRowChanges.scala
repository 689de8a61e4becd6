package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Says of UPDATE and MERGE what to do instead; Spark's own refusal takes them for a wrong table. */
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
