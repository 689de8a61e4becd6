package org.apache.spark.sql.catalogext.views

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.service.ConnectorErrors

/** What statements on views can do wrong before the service hears of it. */
object ViewErrors {
  def notOfViews(view: CatalogExtView, command: String): AnalysisException = ConnectorErrors.analysis(
    ConnectorErrors.ViewPartitionCommand,
    s"ALTER VIEW ${view.name} $command: partitions of a view have no files, so that they can be added and dropped only.",
    Map("view" -> view.name, "command" -> command))

  def elsewhere(catalog: String): AnalysisException = ConnectorErrors.notSupported(
    s"The catalog $catalog keeps no partitioned views. Create it in a catalog of the class CatalogExtCatalog.")

  def noPartition(view: CatalogExtView, spec: Map[String, String]): AnalysisException = ConnectorErrors.analysis(
    ConnectorErrors.PartitionNotFound,
    s"The view ${view.name} has no partition ${spec.map { case (k, v) => s"$k=$v" }.mkString(", ")}; SHOW PARTITIONS " +
      "lists them.", Map("view" -> view.name))
}
