package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.AnalysisContext
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.internal.SQLConf

object SearchPath {
  private val System = "system"

  /** Catalogs with their namespaces, in the order in which Spark looks for a name without any; none without SET PATH. */
  def entries(catalogs: CatalogManager): Seq[Seq[String]] =
    if (!SQLConf.get.pathEnabled) Nil
    else {
      val context = AnalysisContext.get
      catalogs.resolutionPathEntriesForAnalysis(context.resolutionPathEntries, context.catalogAndNamespace)
        .filterNot(_.head == System)
    }

  /** The names that the name of a relation may stand for, in the order in which Spark looks for them. */
  def candidates(catalogs: CatalogManager, name: Seq[String]): Seq[Seq[String]] =
    if (name.length > 1 || !SQLConf.get.pathEnabled) Seq(name) else entries(catalogs).map(_ ++ name)
}
