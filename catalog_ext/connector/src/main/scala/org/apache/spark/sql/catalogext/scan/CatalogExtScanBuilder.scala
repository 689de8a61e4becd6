package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient}
import org.apache.spark.sql.catalyst.expressions.{Expression, PythonUDF}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{Scan, SupportsPushDownRequiredColumns}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.v2.{FileScan, FileScanBuilder}
import org.apache.spark.sql.execution.datasources.v2.csv.CSVScanBuilder
import org.apache.spark.sql.execution.datasources.v2.json.JsonScanBuilder
import org.apache.spark.sql.execution.datasources.v2.orc.OrcScanBuilder
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder
import org.apache.spark.sql.execution.datasources.v2.text.TextScanBuilder
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Builds a scan by Spark's own builder for the format, over the files that the index `files` makes names. */
class CatalogExtScanBuilder(
    spark: SparkSession,
    client: ServiceClient,
    catalogName: String,
    table: TableMetadata,
    readOptions: CaseInsensitiveStringMap,
    files: (StructType, CaseInsensitiveStringMap) => PlannedFileIndex)
  extends SupportsPushDownRequiredColumns with SupportsPushDownCatalystFilters {

  /** Over the files that the index has of the table. */
  def this(
      spark: SparkSession,
      client: ServiceClient,
      catalogName: String,
      table: TableMetadata,
      readOptions: CaseInsensitiveStringMap) =
    this(spark, client, catalogName, table, readOptions,
      (keys, options) => new PlannedFileIndex(spark, client, catalogName, table, keys, options))

  private val conf = spark.sessionState.conf
  private val settings = ResolvedSettings.of("read", client, catalogName, table, readOptions, conf)
  private val options = ReadOptions.resolve(table, readOptions, settings, conf)
  private val dataSchema = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.columns)
  private val index = files(PartitionColumns.forReaders(table, spark.sessionState.conf.resolver), options)
  private val inner: FileScanBuilder = {
    val schema = StructType(dataSchema ++ index.partitionSchema)
    table.format match {
      case "parquet" => ParquetScanBuilder(spark, index, schema, dataSchema, options)
      case "orc" => OrcScanBuilder(spark, index, schema, dataSchema, options)
      case "csv" => CSVScanBuilder(spark, index, schema, dataSchema, options)
      case "json" => JsonScanBuilder(spark, index, schema, dataSchema, options)
      case "text" => TextScanBuilder(spark, index, schema, dataSchema, options)
      case other => throw ConnectorErrors.analysis("CATALOG_EXT_UNSUPPORTED_FORMAT",
        s"Table ${table.qualifiedName} has the format '$other'; this release reads parquet, orc, csv, json and text.",
        Map("table" -> table.qualifiedName, "format" -> other))
    }
  }
  private var fileMetadata: Option[StructType] = None

  override def pruneColumns(required: StructType): Unit = {
    val (metadata, columns) = required.partition(field => isFileMetadata(field.name))
    fileMetadata = metadata.headOption.map(_.dataType.asInstanceOf[StructType])
    inner.pruneColumns(StructType(columns))
  }

  /** The filters that Spark must evaluate again after the scan. */
  override def pushFilters(filters: Seq[Expression]): Seq[Expression] = {
    // Neither the index nor a reader can evaluate these.
    val (withheld, pushable) = filters.partition { filter =>
      filter.references.exists(a => isFileMetadata(a.name)) || filter.exists(_.isInstanceOf[PythonUDF])
    }
    inner.pushFilters(pushable) ++ withheld
  }

  override def pushedFilters: Array[Predicate] = inner.pushedFilters

  override def build(): Scan = {
    val scan = inner.build().asInstanceOf[FileScan]
    index.push(scan.partitionFilters, scan.readPartitionSchema)
    val strict = if (index.isRegistered) settings.text(StrictMode.Setting) else None
    new CatalogExtScan(scan, index, fileMetadata, strict)
  }

  private def isFileMetadata(name: String): Boolean =
    name == FileFormat.METADATA_NAME && !dataSchema.fieldNames.contains(name)
}
