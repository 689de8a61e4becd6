package org.apache.spark.sql.catalogext.write

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.Job
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.formats.{HiveText, HiveTextFileFormat}
import org.apache.spark.sql.catalogext.scan.UnquotedText
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, FileFormat, OutputWriterFactory}
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.text.TextFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.util.SerializableConfiguration

/** A partition column of the table, and the attribute of the rows with its value. */
case class PartitionKey(field: StructField, attribute: Attribute) {
  def name: String = field.name
}

/** The data that a task needs; it is sent to the executors. */
case class WriteJob(
    tableName: String,
    stagingLocations: StagingLocations,
    format: String,
    writers: OutputWriterFactory,
    hadoopConf: SerializableConfiguration,
    allColumns: Seq[Attribute],
    dataColumns: Seq[Attribute],
    statisticsColumns: Option[Int],
    statisticsAfter: Map[String, Long],
    fileSchema: StructType,
    sqlConf: Map[String, String],
    keys: Seq[PartitionKey],
    zone: String,
    grouped: Boolean,
    maxOpenWriters: Int,
    maxRecordsPerFile: Long,
    maxFileBytes: Long,
    partitionLimit: Option[(String, Long)],
    hiveStrategy: Boolean,
    failures: TaskFailures) {

  /** The columns with statistics, under the table's names; `fileSchema` has the names in the files. */
  def statisticsSchema: StructType = {
    val schema = DataTypeUtils.fromAttributes(dataColumns)
    statisticsColumns.fold(schema)(count => StructType(schema.take(count)))
  }
}

/** The plan of a write's files: the columns of a file, their order, and the format's writer. */
class SparkWritePlan(spark: SparkSession, target: WriteTarget, settings: WriteSettings, schema: StructType) {
  private val table = target.metadata
  private val resolver = SQLConf.get.resolver
  private val allColumns = DataTypeUtils.toAttributes(schema)

  private val keys: Seq[PartitionKey] = table.partitionColumns.map { key =>
    PartitionKey(key, column(key.name, "partition column"))
  }

  // Make all columns nullable in files, because a later file may have a NULL where an earlier one had none.
  private val dataColumns: Seq[Attribute] = {
    val named = table.columns.map(field => column(field.name, "column").withName(field.name))
    val ofKeys = if (settings.keysInDataFile) keys.map(key => key.attribute.withName(key.name)) else Nil
    val fields = named ++ ofKeys.filterNot(key => named.exists(data => resolver(data.name, key.name)))
    fields.map { attribute =>
      val nullable = StructType(Seq(DataTypeUtils.fromAttributes(Seq(attribute)).head)).asNullable.head
      attribute.withDataType(nullable.dataType).withNullability(true)
    }
  }

  private val fileSchema = {
    val schema = DataTypeUtils.fromAttributes(dataColumns)
    if (settings.hiveCompatible) HiveFiles.schema(table.format, schema, SQLConf.get.caseSensitiveAnalysis) else schema
  }
  private val format: FileFormat = SparkWritePlan.format(table)

  if (dataColumns.isEmpty) throw ConnectorErrors.analysis(ConnectorErrors.NotSupported,
    s"Table ${target.tableName} has no column besides its partition columns, so that its files would be empty.")
  DataSourceUtils.verifySchema(format, fileSchema)
  DataSourceUtils.checkFieldNames(format, fileSchema)

  /** The names of the partition columns in the rows. */
  def keyNames: Seq[String] = keys.map(_.attribute.name)

  /** Whether a shuffle brings the rows of a partition to one task. */
  val clustered: Boolean = !target.onePartition && settings.clusters

  /** Whether Spark sorts each task's rows by partition. */
  val grouped: Boolean = !target.onePartition && (clustered || settings.maxOpenWriters == 0)

  def job(stagingLocations: StagingLocations, failures: TaskFailures): WriteJob = {
    val options = settings.forFormat
    val hadoop = Job.getInstance(spark.sessionState.newHadoopConfWithOptions(options))
    hadoop.setOutputKeyClass(classOf[Void])
    hadoop.setOutputValueClass(classOf[org.apache.spark.sql.catalyst.InternalRow])
    FileOutputFormat.setOutputPath(hadoop, new org.apache.hadoop.fs.Path(stagingLocations.location))
    val writers = UnquotedText.guard(format.prepareWrite(spark, hadoop, options, fileSchema), table, options)
    val own = if (settings.hiveCompatible) HiveFiles.settings(table.format, options) else Map.empty[String, String]
    own.foreach { case (key, value) => hadoop.getConfiguration.set(key, value) }
    limitGroups(hadoop.getConfiguration)
    WriteJob(
      tableName = target.tableName,
      stagingLocations = stagingLocations,
      format = table.format,
      writers = writers,
      hadoopConf = new SerializableConfiguration(hadoop.getConfiguration),
      allColumns = allColumns,
      dataColumns = dataColumns,
      statisticsColumns = settings.statisticsColumns,
      statisticsAfter = table.statisticsAfter,
      fileSchema = fileSchema,
      sqlConf = own,
      keys = keys,
      zone = settings.zone,
      grouped = grouped,
      maxOpenWriters = if (target.onePartition) math.max(settings.maxOpenWriters, 1) else settings.maxOpenWriters,
      maxRecordsPerFile = settings.maxRecordsPerFile,
      maxFileBytes = settings.maxFileBytes,
      partitionLimit = partitionLimit,
      hiveStrategy = settings.hiveStrategy,
      failures = failures)
  }

  /**
   * Limits the size of row groups and stripes to the maximum size of a file, because files grow by whole row groups or
   * stripes.
   */
  private def limitGroups(conf: Configuration): Unit = SparkWritePlan.Groups.foreach { case (key, default) =>
    val limit = math.max(settings.maxFileBytes, SparkWritePlan.SmallestGroup)
    if (limit < conf.getLong(key, default)) conf.setLong(key, limit)
  }

  private def partitionLimit: Option[(String, Long)] = if (target.onePartition) None else {
    val limits = settings.maxPartitionsPerTask.map(WriteSettings.MaxDynamicPartitionsPerNode -> _) ++
      settings.maxPartitions.map(WriteSettings.MaxDynamicPartitions -> _)
    limits.minByOption(_._2)
  }

  private def column(name: String, what: String): Attribute = allColumns.find(a => resolver(a.name, name)).getOrElse(
    throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"The rows written to table ${target.tableName} have no $what '$name'; they have ${schema.fieldNames.mkString(", ")}.",
      Map("table" -> target.tableName, "column" -> name)))
}

object SparkWritePlan {
  private val Groups = Seq("parquet.block.size" -> (128L << 20), "orc.stripe.size" -> (64L << 20))
  private val SmallestGroup = 64L << 10

  def format(table: TableMetadata): FileFormat = table.format match {
    case "parquet" => new ParquetFileFormat
    case "orc" => new OrcFileFormat
    case "csv" => HiveText.of(table.options).fold[FileFormat](new CSVFileFormat)(
      new HiveTextFileFormat(_, table.qualifiedName))
    case "json" => new JsonFileFormat
    case "text" => new TextFileFormat
    case other => throw ConnectorErrors.analysis(ConnectorErrors.UnsupportedFormat,
      s"Table ${table.qualifiedName} has the format '$other'; this release writes parquet, orc, csv, json and text.",
      Map("table" -> table.qualifiedName, "format" -> other))
  }
}
