package org.apache.spark.sql.catalogext.views

import org.apache.spark.sql.internal.SQLConf

/**
 * The session's settings that Spark stores with a view or a SQL function, to analyse it later as it was analysed first.
 *
 * A setting that names a class of this jar must not be among them: a session without the jar would load the class when
 * it reads the view, and fail.
 */
object CapturedSettings {
  private val Package = classOf[org.apache.spark.sql.catalogext.CatalogExtCatalog].getPackageName
  private val Catalog = "spark.sql.catalog."

  /** The settings without those of catalog-ext; `prefix` is what stands before each name. */
  def others(settings: Map[String, String], prefix: String): Map[String, String] =
    settings.filterNot { case (key, value) => key.startsWith(prefix) && isOurs(key.stripPrefix(prefix), value) }

  private def isOurs(key: String, value: String): Boolean =
    value.split(',').exists(_.trim.startsWith(s"$Package.")) ||
      (key == SQLConf.DEFAULT_CATALOG.key && isCatalogOfOurs(value)) ||
      (key.startsWith(Catalog) && isCatalogOfOurs(key.stripPrefix(Catalog).takeWhile(_ != '.')))

  private def isCatalogOfOurs(name: String): Boolean =
    SQLConf.get.getConfString(s"$Catalog$name", "").startsWith(s"$Package.")
}
