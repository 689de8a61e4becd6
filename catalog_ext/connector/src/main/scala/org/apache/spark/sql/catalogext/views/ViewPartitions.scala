package org.apache.spark.sql.catalogext.views

import java.util.Locale

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.commands.{PartitionDescriptions, TablePartitions}
import org.apache.spark.sql.catalogext.parser.SqlText
import org.apache.spark.sql.catalogext.service.{Json, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec
import org.apache.spark.sql.types.StructField
import org.apache.spark.unsafe.types.UTF8String

case class ViewPartitionExec(view: CatalogExtView, change: ViewPartitionChange) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    val request = obj("namespace" -> text(view.metadata.namespace), "name" -> text(view.metadata.name))
    change match {
      case AddedPartitions(partitions, ifNotExists) =>
        request.put("if_not_exists", ifNotExists)
        request.set[JsonNode]("partitions", arr(partitions.map(added)))
        ServiceException.translating(view.client.call("views/partitions/add", request, limited = false))
      case DroppedPartitions(partitions, ifExists) =>
        request.put("if_exists", ifExists)
        request.set[JsonNode]("partitions", arr(partitions.map(p => obj("spec" -> Json.map(p.values)))))
        ServiceException.translating(view.client.call("views/partitions/drop", request, limited = false))
      case RefusedChange(command) => throw ViewErrors.notOfViews(view, command)
    }
    Nil
  }

  private def added(partition: ViewPartition): JsonNode = obj(
    "spec" -> Json.map(partition.values),
    "location" -> text(partition.location),
    "dependencies" -> arr(if (isRefused(partition)) Nil else ViewDependencies.of(session, view, partition.values)))

  /**
   * Whether the service will refuse the clause itself. If so, the view's query is not planned, because its tables may
   * not exist any more.
   */
  private def isRefused(partition: ViewPartition): Boolean = {
    val named = partition.values.map(_._1.toLowerCase(Locale.ROOT)).toSet
    val keys = view.metadata.partitionColumns.fieldNames.map(_.toLowerCase(Locale.ROOT))
    view.automatic || partition.location.isDefined || !keys.forall(named.contains)
  }
}

case class ShowViewPartitionsExec(output: Seq[Attribute], view: CatalogExtView, spec: Map[String, String])
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] =
    PartitionDescriptions.names(ViewPartitions.of(view), Option.when(spec.nonEmpty)(spec))
}

/**
 * DESCRIBE PARTITION of a view: its columns and the partition's values. A view's partition has no location and no
 * files.
 */
case class DescribeViewPartitionExec(
    output: Seq[Attribute], view: CatalogExtView, spec: Map[String, String], extended: Boolean)
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val names = ViewPartitions.of(view).of(spec).map(_.name)
    val described = ViewPartitions.columns(view.schema) ++ ViewPartitions.information(view)
    if (!extended) described
    else described ++ Seq(
      ViewPartitions.row("", "", ""), ViewPartitions.row("# Detailed Partition Information", "", ""),
      ViewPartitions.row("Database", view.metadata.namespace, ""), ViewPartitions.row("View", view.metadata.name, ""),
      ViewPartitions.row("Partition Name", names.mkString(", "), ""))
  }
}

/** Spark's description of a view, followed by its partition columns. */
case class DescribePartitionedViewExec(output: Seq[Attribute], view: CatalogExtView, described: SparkPlan)
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val (columns, more) = described.executeCollect().toSeq.splitAt(view.schema.length)
    columns ++ ViewPartitions.information(view) ++ more
  }
}

/** SHOW CREATE TABLE of a partitioned view, as an executable statement. */
case class ShowCreatePartitionedViewExec(output: Seq[Attribute], view: CatalogExtView) extends LeafV2CommandExec {
  override protected def run(): Seq[InternalRow] =
    Seq(InternalRow(UTF8String.fromString(ViewPartitions.createStatement(view))))
}

object ViewPartitions {
  /** The present partitions of the view. */
  def of(view: CatalogExtView): TablePartitions = new TablePartitions(view.client, current(view))

  /** The view's definition at the present version. The partitions of an automatic view are updated first. */
  private def current(view: CatalogExtView): TableMetadata = if (!view.automatic) view.metadata else {
    val request = obj("namespace" -> text(view.metadata.namespace), "name" -> text(view.metadata.name))
    TableMetadata.fromJson(ServiceException.translating(view.client.call("views/refresh", request, limited = false)))
  }

  def row(name: String, value: String, comment: String): InternalRow =
    InternalRow(UTF8String.fromString(name), UTF8String.fromString(value), UTF8String.fromString(comment))

  def columns(fields: Iterable[StructField]): Seq[InternalRow] =
    fields.map(field => row(field.name, field.dataType.simpleString, field.getComment().orNull)).toSeq

  def information(view: CatalogExtView): Seq[InternalRow] = Seq(
    row("# Partition Information", "", ""), row("# col_name", "data_type", "comment")) ++
    columns(view.metadata.partitionColumns)

  def createStatement(view: CatalogExtView): String = {
    val fields = view.schema.map { field =>
      quoteIfNeeded(field.name) + field.getComment().fold("")(comment => s" COMMENT ${SqlText.literal(comment)}")
    }
    val properties = view.metadata.properties - TableCatalog.PROP_COMMENT
    val name = Seq(view.catalogName, view.metadata.namespace, view.metadata.name).map(quoteIfNeeded).mkString(".")
    Seq(
      Some(s"CREATE VIEW $name"),
      Some(fields.mkString("(\n  ", ",\n  ", ")")),
      view.metadata.comment.map(comment => s"COMMENT ${SqlText.literal(comment)}"),
      Some(view.metadata.partitionColumns.fieldNames.map(quoteIfNeeded).mkString("PARTITIONED ON (", ", ", ")")),
      Option.when(properties.nonEmpty)(s"TBLPROPERTIES ${SqlText.pairs(properties)}"),
      Some(s"AS ${view.queryText}\n")).flatten.mkString("\n")
  }
}
