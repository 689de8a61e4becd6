package org.apache.spark.sql.catalogext.paths

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, TableMetadata, VirtualColumn}
import org.apache.spark.sql.catalogext.scan.{CatalogExtScanBuilder, FileColumns}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A path as a table that can be read. The keys in the path are metadata columns, as virtual partition columns are. */
class AdHocTable(
    val catalogName: String,
    val metadata: TableMetadata,
    client: ServiceClient,
    keysShown: Boolean)
  extends Table with SupportsRead with SupportsMetadataColumns {

  private val keys = PartitionColumns.visible(metadata, SQLConf.get.resolver)

  override def name(): String = s"$catalogName.${metadata.qualifiedName}"
  override def schema(): StructType = metadata.columns

  /** The table with its keys as columns, for statements that list columns; None where it has none to show. */
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

  // Another read of the path that finds the same columns reads the same, as Spark has it for its own paths.
  override def equals(other: Any): Boolean = other match {
    case that: AdHocTable => catalogName == that.catalogName && metadata == that.metadata
    case _ => false
  }

  override def hashCode(): Int = (catalogName, metadata.name).hashCode()
}
