package org.apache.spark.sql.catalogext.commands

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructField
import org.apache.spark.unsafe.types.UTF8String

/** The output of statements that show partitions, in the layout of Spark's own tables. */
object PartitionDescriptions {
  /** SHOW PARTITIONS: the directory names as on the store. */
  def names(partitions: TablePartitions, spec: Option[Map[String, String]]): Seq[InternalRow] =
    partitions.list(spec.toSeq.map(PartitionClauses.equalities(_))).map(p => InternalRow(UTF8String.fromString(p.name)))

  /** The rows of DESCRIBE ... PARTITION. */
  def describe(table: CatalogExtTable, action: DescribeAction): Seq[InternalRow] = {
    val details = one(table, action.spec)
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

  /** The rows of SHOW TABLE EXTENDED ... PARTITION. */
  def showExtended(table: CatalogExtTable, action: ShowExtendedAction): Seq[InternalRow] = {
    val details = one(table, action.spec)
    val information = details.map { case (name, value) => s"$name: $value" }.mkString("", "\n", "\n")
    Seq(InternalRow(
      UTF8String.fromString(table.metadata.namespace), UTF8String.fromString(table.metadata.name), false,
      UTF8String.fromString(information)))
  }

  private def one(table: CatalogExtTable, spec: Map[String, String]): Seq[(String, String)] = {
    val directories = table.partitions.of(spec)
    val values = PartitionClauses.literals(table.metadata, directories.head.values)
    val found = table.partitions.describe(directories)
    Seq(
      "Partition Values" -> values.map { case (key, value) => s"$key=$value" }.mkString("[", ", ", "]"),
      "Location" -> found.location,
      "Partition Name" -> found.name,
      "Created Time" -> found.created.toString,
      "Files" -> found.files.toString,
      "Partition Statistics" -> s"${found.bytes} bytes${found.rows.fold("")(rows => s", $rows rows")}")
  }
}
