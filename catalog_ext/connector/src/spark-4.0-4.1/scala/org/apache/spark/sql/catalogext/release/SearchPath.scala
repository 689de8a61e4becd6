package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.CatalogManager

/** Spark has SET PATH from 4.2 on. */
object SearchPath {
  def entries(catalogs: CatalogManager): Seq[Seq[String]] = Nil
  def candidates(catalogs: CatalogManager, name: Seq[String]): Seq[Seq[String]] = Seq(name)
}
