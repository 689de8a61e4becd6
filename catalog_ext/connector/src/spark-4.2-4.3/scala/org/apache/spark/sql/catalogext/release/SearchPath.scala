package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.AnalysisContext
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.internal.SQLConf

object SearchPath {
  private val System = "system"

  /** The names that the name of a relation may stand for, in the order in which Spark looks for them. */
  def candidates(catalogs: CatalogManager, name: Seq[String]): Seq[Seq[String]] =
    if (name.length > 1 || !SQLConf.get.pathEnabled) Seq(name)
    else {
      val context = AnalysisContext.get
      catalogs.resolutionPathEntriesForAnalysis(context.resolutionPathEntries, context.catalogAndNamespace)
        .filterNot(_.head == System).map(_ ++ name)
    }
}
