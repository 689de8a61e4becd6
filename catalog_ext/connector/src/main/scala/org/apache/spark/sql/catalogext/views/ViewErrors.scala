package org.apache.spark.sql.catalogext.views

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.service.ConnectorErrors

/** What statements on views can do wrong before the service hears of it. */
object ViewErrors {
  private val Spec = "CATALOG_EXT_VIEW_PARTITION_SPEC"

  def notOfViews(view: CatalogExtView, command: String): AnalysisException = ConnectorErrors.analysis(
    ConnectorErrors.ViewPartitionCommand,
    s"ALTER VIEW ${view.name} $command: partitions of a view have no files, so that they can be added and dropped only.",
    Map("view" -> view.name, "command" -> command))

  def elsewhere(catalog: String): AnalysisException = ConnectorErrors.notSupported(
    s"The catalog $catalog keeps no partitioned views. Create it in a catalog of the class CatalogExtCatalog.")

  def unpartitioned(view: CatalogExtView): AnalysisException = ConnectorErrors.analysis(
    "CATALOG_EXT_VIEW_NOT_PARTITIONED",
    s"The view ${view.name} is not partitioned. Create it with PARTITIONED ON (its last columns).",
    Map("view" -> view.name))

  def unknown(view: CatalogExtView, column: String): AnalysisException = ConnectorErrors.analysis(Spec,
    s"The statement names '$column', which is no partition column; the view ${view.name} is partitioned on " +
      s"(${view.metadata.partitionColumns.fieldNames.mkString(", ")}).", Map("view" -> view.name, "column" -> column))

  def incomplete(view: CatalogExtView, missing: Seq[String]): AnalysisException = ConnectorErrors.analysis(Spec,
    s"The statement gives no value for ${missing.mkString(", ")}; the view ${view.name} is partitioned on " +
      s"(${view.metadata.partitionColumns.fieldNames.mkString(", ")}).", Map("view" -> view.name))

  def noPartition(view: CatalogExtView, spec: Map[String, String]): AnalysisException = ConnectorErrors.analysis(
    ConnectorErrors.PartitionNotFound,
    s"The view ${view.name} has no partition ${spec.map { case (k, v) => s"$k=$v" }.mkString(", ")}; SHOW PARTITIONS " +
      "lists them.", Map("view" -> view.name))
}
