package org.apache.spark.sql.catalogext.commands

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.ResolvedPartitionSpec
import org.apache.spark.sql.types.StructField
import org.apache.spark.unsafe.types.UTF8String

/** What the statements that show partitions print, in the layout of Spark's own tables. */
object PartitionDescriptions {
  /** SHOW PARTITIONS: the names as they are on the store. */
  def names(table: CatalogExtTable, specs: PartitionSpecs, action: ShowAction): Seq[InternalRow] = {
    if (table.metadata.partitionColumns.isEmpty) throw specs.unpartitioned
    val spec = specs.partial(action.spec.getOrElse(Map.empty))
    table.partitionNames(spec.names, spec.ident).map(name => InternalRow(UTF8String.fromString(name)))
  }

  /** DESCRIBE ... PARTITION. */
  def describe(table: CatalogExtTable, specs: PartitionSpecs, action: DescribeAction): Seq[InternalRow] = {
    val details = one(table, specs, specs.full(action.spec))
    val rows = ArrayBuffer.empty[InternalRow]
    def row(name: String, value: String, comment: String): Unit =
      rows += InternalRow(Seq(name, value, comment).map(UTF8String.fromString): _*)
    def column(field: StructField): Unit = row(field.name, field.dataType.simpleString, field.getComment().orNull)
    table.schema().foreach(column)
    row("# Partition Information", "", "")
    row("# col_name", "data_type", "comment")
    table.metadata.partitionColumns.foreach(column)
    if (action.extended) {
      row("", "", "")
      row("# Detailed Partition Information", "", "")
      row("Database", table.metadata.namespace, "")
      row("Table", table.metadata.name, "")
      details.foreach { case (name, value) => row(name, value, "") }
    }
    rows.toSeq
  }

  /** SHOW TABLE EXTENDED ... PARTITION. */
  def showExtended(table: CatalogExtTable, specs: PartitionSpecs, action: ShowExtendedAction): Seq[InternalRow] = {
    val details = one(table, specs, specs.full(action.spec))
    val information = details.map { case (name, value) => s"$name: $value" }.mkString("", "\n", "\n")
    Seq(InternalRow(
      UTF8String.fromString(table.metadata.namespace), UTF8String.fromString(table.metadata.name), false,
      UTF8String.fromString(information)))
  }

  private def one(
      table: CatalogExtTable, specs: PartitionSpecs, spec: ResolvedPartitionSpec): Seq[(String, String)] = {
    val found = table.described(spec.names, spec.ident).getOrElse(throw notFound(table, specs, spec))
    Seq(
      "Partition Values" -> shown(specs, spec),
      "Location" -> found.location,
      "Partition Name" -> found.name,
      "Created Time" -> found.created.toString,
      "Files" -> found.files.toString,
      "Partition Statistics" -> s"${found.bytes} bytes${found.rows.fold("")(rows => s", $rows rows")}")
  }

  def notFound(table: CatalogExtTable, specs: PartitionSpecs, spec: ResolvedPartitionSpec): Throwable =
    ConnectorErrors.analysis(ConnectorErrors.PartitionNotFound,
      s"Table ${table.name()} has no partition ${shown(specs, spec)}; SHOW PARTITIONS lists them.",
      Map("table" -> table.name(), "partition" -> shown(specs, spec)))

  private def shown(specs: PartitionSpecs, spec: ResolvedPartitionSpec): String =
    specs.texts(spec).map { case (key, value) => s"$key=$value" }.mkString("[", ", ", "]")
}
