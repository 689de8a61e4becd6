package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OptionList, UnresolvedTableSpec}
import org.apache.spark.sql.execution.command.SaveAsV1TableCommand

/** `df.write.saveAsTable` with one of Spark's formats. */
object SavedTable {
  def unapply(plan: LogicalPlan): Option[(CatalogTable, SaveMode, LogicalPlan)] = plan match {
    case SaveAsV1TableCommand(table, mode, query) => Some((table, mode, query))
    case _ => None
  }

  /** The definition of the new table, with another provider. */
  def spec(table: CatalogTable, provider: String, properties: Map[String, String]): UnresolvedTableSpec =
    UnresolvedTableSpec(
      properties, Some(provider), OptionList(Nil), table.storage.locationUri.map(_.toString), table.comment,
      table.collation, None, external = false, Nil)
}
