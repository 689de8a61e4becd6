package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.AnalysisContext
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.internal.SQLConf

object SearchPath {
  private val System = "system"

  /** The catalogs and namespaces in which Spark looks up an unqualified name, in order; empty without SET PATH. */
  def entries(catalogs: CatalogManager): Seq[Seq[String]] =
    if (!SQLConf.get.pathEnabled) Nil
    else {
      val context = AnalysisContext.get
      catalogs.resolutionPathEntriesForAnalysis(context.resolutionPathEntries, context.catalogAndNamespace)
        .filterNot(_.head == System)
    }

  /** The full names that the name of a relation may stand for, in Spark's lookup order. */
  def candidates(catalogs: CatalogManager, name: Seq[String]): Seq[Seq[String]] =
    if (name.length > 1 || !SQLConf.get.pathEnabled) Seq(name) else entries(catalogs).map(_ ++ name)
}
