package org.apache.spark.sql.catalogext.views

import org.apache.spark.SparkRuntimeException
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

  /** A function that Spark has stored, and that could not be stored again without the settings of catalog-ext. */
  def functionNotStored(name: String, isKept: Boolean, cause: Throwable): SparkRuntimeException = {
    val outcome =
      if (isKept) "It is there with them: Sparks without catalog-ext cannot call it."
      else "It was dropped for that, and could not be put back."
    ConnectorErrors.runtime(ConnectorErrors.MetastoreUnavailable,
      s"The metastore did not store the function $name without the settings of catalog-ext: ${Option(cause.getMessage).getOrElse(cause.toString).stripSuffix(".")}. " +
        s"$outcome Run CREATE OR REPLACE FUNCTION again.",
      Map("function" -> name), Some(cause))
  }
}
