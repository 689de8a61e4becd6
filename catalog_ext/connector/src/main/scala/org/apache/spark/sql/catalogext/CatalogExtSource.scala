package org.apache.spark.sql.catalogext

import java.util
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.release.Definitions
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogV2Util, Table, TableCatalog, TableProvider}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The provider of `USING catalog_ext`, by which a CREATE TABLE in the session catalog creates a table of the index. The
 * option or table property `format` sets the format of its files.
 *
 * Spark passes a statement on to the session catalog only if its provider supports external metadata.
 */
class CatalogExtSource extends TableProvider with DataSourceRegister {
  override def shortName(): String = CatalogExtSource.Name
  override def supportsExternalMetadata(): Boolean = true
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = throw noTable
  override def getTable(schema: StructType, keys: Array[Transform], options: util.Map[String, String]): Table =
    throw noTable

  private def noTable: Throwable = ConnectorErrors.notSupported(
    s"The format ${CatalogExtSource.Name} reads and writes tables by their names: use spark.table(...), writeTo(...) or " +
      "saveAsTable(...), not load(...) or save(...).")
}

object CatalogExtSource {
  val Name = "catalog_ext"
  val Format = "format"

  def isProvider(provider: Option[String]): Boolean =
    provider.exists(name => name.equalsIgnoreCase(Name) || name == classOf[CatalogExtSource].getName)

  def isProviderOf(info: TableInfo): Boolean = isProvider(Option(info.properties.get(TableCatalog.PROP_PROVIDER)))

  /** The provider to print in SHOW CREATE TABLE, with which the printed statement creates the same table again. */
  def providerIn(catalog: String, format: String): String =
    if (CatalogManager.SESSION_CATALOG_NAME == catalog) Name else format
  def optionsIn(catalog: String, format: String): Map[String, String] =
    if (CatalogManager.SESSION_CATALOG_NAME == catalog) Map(Format -> format) else Map.empty

  /** The table with its file format as the provider, as all catalogs of this connector expect it. */
  def withFormat(info: TableInfo, default: Option[String] = Some(SQLConf.get.defaultDataSourceName)): TableInfo = {
    val properties = info.properties.asScala.toMap
    val keys = Set(Format, s"${TableCatalog.OPTION_PREFIX}$Format")
    val (formats, others) = properties.partition { case (key, _) => keys.contains(key.toLowerCase(Locale.ROOT)) }
    val provider = formats.values.headOption.orElse(default).map(TableCatalog.PROP_PROVIDER -> _)
    Definitions.info(info.columns, info.partitions, others - TableCatalog.PROP_PROVIDER ++ provider)
  }

  /**
   * The definition of a new table of Spark's own, with the columns and partition columns of a table of the index
   * (`like`).
   */
  def withKeys(info: TableInfo, like: CatalogExtTable): TableInfo = {
    val columns = CatalogV2Util.structTypeToV2Columns(like.metadata.writeSchema)
    val keys = like.metadata.partitionColumns.fieldNames
      .map(key => Expressions.identity(quoteIdentifier(key)): Transform)
    Definitions.info(columns, keys, info.properties.asScala.toMap)
  }
}
