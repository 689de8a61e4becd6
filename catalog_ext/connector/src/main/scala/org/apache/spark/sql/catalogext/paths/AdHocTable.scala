package org.apache.spark.sql.catalogext.paths

import java.util
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, ResolvedSettings, TableMetadata, TableTotals,
  VirtualColumn}
import org.apache.spark.sql.catalogext.release.SearchPath
import org.apache.spark.sql.catalogext.scan.{CatalogExtScanBuilder, FileColumns}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{CatalogExtAnalysisException, ConnectorErrors, ServiceClient,
  ServiceException}
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{classic, SparkSession}

/** Unregistered files that are read by their path, as in ``FROM lake.`s3a://bucket/data` ``. */
class AdHocPaths(catalogName: String, client: ServiceClient) {
  import AdHocPaths._

  /**
   * Whether a name is a path: no table name contains a slash. The path follows the catalog's name, or stands alone
   * after USE or SET PATH. After a namespace it belongs to Spark (parquet.`/path`) or is invalid.
   */
  def named(ident: Identifier): Boolean = hasSlash(ident) && (ident.namespace().isEmpty || isUnqualified(ident))

  /** The path as a table; None if the name is no path. */
  def find(ident: Identifier): Option[AdHocTable] =
    Option.when(named(ident))(load(ident.name(), CaseInsensitiveStringMap.empty()))

  /** The path as a table. The schema is read from a few of its files. */
  def load(path: String, options: CaseInsensitiveStringMap): AdHocTable = {
    if (Versions.exists(options.containsKey)) throw withoutVersions(path)
    val request = obj(
      "path" -> text(path),
      "format" -> text(Option(options.get(Format))),
      "schema" -> text(Option(options.get(Schema))),
      "options" -> map(options.asCaseSensitiveMap().asScala.filterNot { case (key, _) => isOurs(key) }),
      "session" -> map(SQLConf.get.getAllConfs.filter { case (key, _) => key == ResolvedSettings.HivePartitioning }))
    // A listing may take long, so the request has no time limit.
    val answer = ServiceException.translating(client.call("paths/load", request, limited = false))
    val metadata = TableMetadata(
      tableId = -1, namespace = "", name = path, tableType = "EXTERNAL", format = answer.string("format"),
      location = answer.string("location"), columns = TableMetadata.schema(answer.items("columns")),
      partitionColumns = TableMetadata.schema(answer.items("partition_columns")), notNull = Set.empty,
      declared = false, options = answer.stringMap("options"), properties = Map.empty, comment = None, owner = None,
      version = -1, totals = TableTotals(0, 0, 0, None), settings = answer.field("settings"))
    new AdHocTable(catalogName, metadata, client, keysShown = answer.field("partitioning").asBoolean())
  }

  def exists(path: String): Boolean = try {
    load(path, CaseInsensitiveStringMap.empty())
    true
  } catch {
    case e: CatalogExtAnalysisException if NotFound.contains(e.getCondition) => false
  }

  /** Raises an error if the name is a path, which can only be read, or contains a slash and so is no table's name. */
  def checkNoPath(ident: Identifier): Unit =
    if (named(ident)) throw readOnly(catalogName, ident.name())
    else if (hasSlash(ident)) throw new NoSuchTableException(ident)

  private def isUnqualified(ident: Identifier): Boolean =
    catalogName != CatalogManager.SESSION_CATALOG_NAME && {
      val manager = classic.SparkSession.active.sessionState.catalogManager
      (manager.currentCatalog.name() == catalogName && ident.namespace().sameElements(manager.currentNamespace)) ||
        SearchPath.entries(manager).contains(catalogName +: ident.namespace().toSeq)
    }
}

object AdHocPaths {
  val Format = "format"
  val Schema = "schema"
  private val Versions = Seq("versionAsOf", "timestampAsOf")
  private val NotFound = Set(ConnectorErrors.PathNotFound.code, ConnectorErrors.LocationNotFound.code)

  private def hasSlash(ident: Identifier): Boolean = ident.name().contains("/")
  private def isOurs(option: String): Boolean = Set(Format, Schema).contains(option.toLowerCase(Locale.ROOT))

  def withoutVersions(path: String): Throwable = ConnectorErrors.notSupported(
    s"The path $path has no versions: only tables of the index have. Leave out VERSION AS OF and TIMESTAMP AS OF, and " +
      "the options versionAsOf and timestampAsOf.")

  def readOnly(catalog: String, path: String): Throwable = ConnectorErrors.analysis(ConnectorErrors.ReadOnlyPath,
    s"$catalog.${quoteIdentifier(path)} is a path and not a table: it can only be read. To change the files, " +
      s"register them as a table: CALL $catalog.system.register_table(table => 'namespace.name', location => '...').",
    Map("path" -> path))
}

/** A path as a table that can be read. The keys in the path are metadata columns, like virtual partition columns. */
class AdHocTable(
    val catalogName: String,
    val metadata: TableMetadata,
    client: ServiceClient,
    keysShown: Boolean)
  extends Table with SupportsRead with SupportsMetadataColumns {

  private val keys = PartitionColumns.visible(metadata, SQLConf.get.resolver)

  override def name(): String = s"$catalogName.${metadata.qualifiedName}"
  override def schema(): StructType = metadata.columns

  /** The table with its keys as columns, for statements that list columns; None if there are no keys to add. */
  def withKeysListed: Option[Table] = Option.when(keys.nonEmpty) {
    val path = this
    new Table {
      override def name(): String = path.name()
      override def schema(): StructType = StructType(metadata.columns ++ PartitionColumns.marked(keys))
      override def partitioning(): Array[Transform] =
        keys.fieldNames.map(key => Expressions.identity(quoteIdentifier(key)))
      override def properties(): util.Map[String, String] = path.properties()
      override def capabilities(): util.Set[TableCapability] = path.capabilities()
    }
  }

  override def metadataColumns(): Array[MetadataColumn] = {
    val columns = keys.map(key =>
      VirtualColumn(key.name, CharVarcharUtils.replaceCharVarcharWithString(key.dataType), null))
    (columns ++ FileColumns.metadataColumns(metadata, SQLConf.get.resolver) :+
      VirtualColumn(FileFormat.METADATA_NAME, StructType(FileFormat.BASE_METADATA_FIELDS), null)).toArray
  }

  override def properties(): util.Map[String, String] = (
    metadata.options.map { case (key, value) => s"${TableCatalog.OPTION_PREFIX}$key" -> value } ++ Map(
      TableCatalog.PROP_PROVIDER -> metadata.format,
      TableCatalog.PROP_LOCATION -> metadata.location,
      TableCatalog.PROP_EXTERNAL -> "true")).asJava

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    val spark = SparkSession.active
    new CatalogExtScanBuilder(spark, client, catalogName, metadata, options,
      (keys, resolved) => new AdHocFileIndex(spark, client, catalogName, metadata, keys, resolved, keysShown))
  }

  // Two reads of a path with equal columns are equal, as for Spark's own paths, so that cached plans are reused.
  override def equals(other: Any): Boolean = other match {
    case that: AdHocTable => catalogName == that.catalogName && metadata == that.metadata
    case _ => false
  }

  override def hashCode(): Int = (catalogName, metadata.name).hashCode()
}
