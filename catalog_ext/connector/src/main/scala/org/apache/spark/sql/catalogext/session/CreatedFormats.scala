package org.apache.spark.sql.catalogext.session

import java.util.Locale

import org.apache.spark.sql.catalogext.CatalogExtSource
import org.apache.spark.sql.catalogext.catalog.CatalogOptions
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier}
import org.apache.spark.sql.internal.SQLConf

/**
 * `create.formats` and `create.databases`: which CREATE TABLE of Spark's makes one of ours in the session catalog. They
 * are the session's, so that SET changes them, and nothing is asked for them of the service.
 */
object CreatedFormats {
  private val Formats = "create.formats"
  private val Databases = "create.databases"
  /** The formats that tables of ours can have. */
  val Known: Set[String] = Set("parquet", "orc", "csv", "json", "text")
  private val Everything = "*"
  private val Nothing = "none"

  /** The format of ours that a statement asks for, if a table of it in this database is to be one. */
  def of(ident: Identifier, spec: UnresolvedTableSpec): Option[String] = said(spec).filter(makes(ident, _))

  /** Whether a table of this format, by Spark's name, is to be one of ours. */
  def makes(ident: Identifier, format: String): Boolean = {
    val conf = SQLConf.get
    val formats = words(conf, Formats, Nothing)
    formats.find(word => !Known(word) && word != Everything).foreach { other =>
      throw CatalogOptions.invalid(CatalogManager.SESSION_CATALOG_NAME, Formats,
        s"names '$other', which is no format of tables: give some of ${Known.toSeq.sorted.mkString(", ")} with commas " +
          s"between them, $Everything for all, or $Nothing")
    }
    val name = format.toLowerCase(Locale.ROOT)
    Known(name) && has(formats, name) && ident.namespace().length == 1 &&
      has(words(conf, Databases, Everything), ident.namespace().head.toLowerCase(Locale.ROOT))
  }

  /** What USING or STORED AS name, otherwise what Spark would take. Other clauses of Hive's are about its own tables. */
  private def said(spec: UnresolvedTableSpec): Option[String] = (spec.provider, spec.serde) match {
    case (Some(provider), _) => Some(provider).filterNot(name => CatalogExtSource.isProvider(Some(name)))
    case (None, Some(hive)) =>
      hive.storedAs.filter(_ => hive.serde.isEmpty && hive.formatClasses.isEmpty && hive.serdeProperties.isEmpty)
    case (None, None) =>
      Option.unless(SQLConf.get.getConf(SQLConf.LEGACY_CREATE_HIVE_TABLE_BY_DEFAULT))(SQLConf.get.defaultDataSourceName)
  }

  private def has(words: Set[String], name: String): Boolean = words(Everything) || words(name)

  private def words(conf: SQLConf, key: String, default: String): Set[String] = {
    val texts = CatalogOptions.ofSession(CatalogManager.SESSION_CATALOG_NAME, conf)
    val text = texts.collectFirst { case (name, value) if name.equalsIgnoreCase(key) => value }.getOrElse(default)
    text.split(",").map(_.trim.toLowerCase(Locale.ROOT)).filter(_.nonEmpty).toSet - Nothing
  }
}
