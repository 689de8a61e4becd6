package org.apache.spark.sql.catalogext.session

import java.util

import org.apache.spark.sql.catalogext.release.Definitions
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, StagedTable, SupportsWrite, Table, TableCapability,
  TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.StructType

/**
 * A table of another data source that a CREATE TABLE ... AS in the session catalog makes. Spark's own catalog cannot
 * stage: the table is created at once, and dropped again when the query fails, as Spark does it without us.
 */
class DelegatedTable(own: TableCatalog, ident: Identifier, table: Table) extends StagedTable with SupportsWrite {
  override def name(): String = table.name()
  override def columns(): Array[Column] = table.columns()
  // Spark 4.0 has no other.
  override def schema(): StructType = CatalogV2Util.v2ColumnsToStructType(columns())
  override def partitioning(): Array[Transform] = table.partitioning()
  override def properties(): util.Map[String, String] = table.properties()
  override def capabilities(): util.Set[TableCapability] = table.capabilities()

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = table match {
    case target: SupportsWrite => target.newWriteBuilder(info)
    case _ => throw ConnectorErrors.notSupported(s"Table ${name()} cannot be written: its data source only reads.")
  }

  override def commitStagedChanges(): Unit = ()
  override def abortStagedChanges(): Unit = own.dropTable(ident)
}

object DelegatedTable {
  def create(own: TableCatalog, ident: Identifier, info: TableInfo): DelegatedTable = {
    // V2SessionCatalog gives null where Spark is not going to look at the table.
    val created = Option(Definitions.create(own, ident, info)).getOrElse(own.loadTable(ident))
    new DelegatedTable(own, ident, created)
  }
}
