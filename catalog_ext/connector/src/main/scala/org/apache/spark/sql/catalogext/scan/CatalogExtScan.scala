package org.apache.spark.sql.catalogext.scan

import java.util.OptionalLong

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{DriverMetric, PartitionColumns, ReadMetrics, ResolvedSettings,
  TableMetadata}
import org.apache.spark.sql.catalogext.commands.ColumnStatistics
import org.apache.spark.sql.catalogext.formats.FileReaders
import org.apache.spark.sql.catalogext.release.{FilteredBuilder, RuntimeFiltered}
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient}
import org.apache.spark.sql.catalogext.stream.CatalogExtMicroBatchStream
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, PythonUDF}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.expressions.{Expressions, FieldReference, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.Scan.ColumnarSupportMode
import org.apache.spark.sql.connector.read.partitioning.{KeyGroupedPartitioning, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, FileScan, FileScanBuilder}
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Builds a scan by Spark's own builder for the format, over the files that the index `files` makes names. */
class CatalogExtScanBuilder(
    spark: SparkSession,
    client: ServiceClient,
    catalogName: String,
    table: TableMetadata,
    readOptions: CaseInsensitiveStringMap,
    files: (StructType, CaseInsensitiveStringMap) => PlannedFileIndex)
  extends FilteredBuilder(spark) with SupportsPushDownRequiredColumns with SupportsPushDownAggregates
  with SupportsPushDownLimit {

  /** Over the files that the index has of the table. */
  def this(
      spark: SparkSession,
      client: ServiceClient,
      catalogName: String,
      table: TableMetadata,
      readOptions: CaseInsensitiveStringMap,
      shared: SharedFiles) =
    this(spark, client, catalogName, table, readOptions,
      (keys, options) => new PlannedFileIndex(spark, client, catalogName, table, keys, options, shared,
        Option.when(table.descriptors.nonEmpty)(0L)))

  private val conf = spark.sessionState.conf
  private val settings = ResolvedSettings.of("read", client, catalogName, table, readOptions, conf)
  private val options = ReadOptions.resolve(table, readOptions, settings, conf)
  private val dataSchema = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.columns)
  if (table.tableId >= 0) FileFilters.checkTable(s"$catalogName.${table.qualifiedName}", options)
  else FileFilters.checkPath(table.name, options)
  private val index = files(PartitionColumns.forReaders(table, spark.sessionState.conf.resolver), options)
  if (index.isRegistered) index.limitStaleness(settings.long(CatalogExtScan.MaxStaleness))
  private val inner: FileScanBuilder = SparkScans.of(spark, table, table.format, index,
    StructType(dataSchema ++ index.partitionSchema), dataSchema, options)
  private var fileMetadata: Option[StructType] = None

  override def pruneColumns(required: StructType): Unit = {
    val (metadata, columns) = required.partition(field => isFileMetadata(field.name))
    fileMetadata = metadata.headOption.map(_.dataType.asInstanceOf[StructType])
    inner.pruneColumns(StructType(columns.map(whole)))
  }

  // Not every format leaves out fields of structs, and all readers of a scan have to give the same.
  private def whole(field: StructField): StructField =
    if (table.descriptors.isEmpty) field else dataSchema.find(_.name == field.name).getOrElse(field)

  /** The filters that Spark must evaluate again after the scan. */
  override def pushFilters(filters: Seq[Expression]): Seq[Expression] = {
    // Neither the index nor a reader can evaluate these.
    val (withheld, pushable) = filters.partition { filter =>
      filter.references.exists(a => isFileMetadata(a.name)) || filter.exists(_.isInstanceOf[PythonUDF])
    }
    inner.pushFilters(pushable) ++ withheld
  }

  override def pushedFilters: Array[Predicate] = inner.pushedFilters

  private val answersByIndex = index.isRegistered && settings.flag(IndexAnswers.Setting) && !index.choosesFiles &&
    IndexAnswers.Formats(table.format) && !IndexAnswers.skipsFiles(options)
  private var asked: Option[(Aggregation, Option[Scan])] = None
  private var answer: Option[Scan] = None
  private var limit: Option[Int] = None

  private def filtersOfKeys: Seq[Expression] = inner.build().asInstanceOf[FileScan].partitionFilters

  private def answered(aggregation: Aggregation): Option[Scan] = {
    if (!asked.exists(_._1 eq aggregation)) {
      val filters = filtersOfKeys
      val may = answersByIndex && index.areOfKeys(filters) && strict.forall(_ => index.isLimited(filters))
      asked = Some(aggregation -> (
        if (may) new IndexAnswers(s"$catalogName.${table.qualifiedName}", index, known, filters,
          settings.flag(LearnedCounts.Setting)).answer(aggregation)
        else None))
    }
    asked.get._2
  }

  // Spark asks this first, and wants the whole of an aggregation or nothing.
  override def supportCompletePushDown(aggregation: Aggregation): Boolean = answered(aggregation).isDefined

  override def pushAggregation(aggregation: Aggregation): Boolean = {
    answer = answered(aggregation)
    answer.isDefined
  }

  /** Spark pushes a limit where nothing is left to be filtered after the scan, and takes no more rows than it says. */
  override def pushLimit(rows: Int): Boolean = {
    val taken = answersByIndex && answer.isEmpty && index.saysExactly(filtersOfKeys)
    if (taken) limit = Some(rows)
    taken
  }

  override def isPartiallyPushed: Boolean = true

  override def build(): Scan = answer.getOrElse {
    val scan = inner.build().asInstanceOf[FileScan]
    index.push(scan.partitionFilters, limit, skipping(scan.dataFilters))
    new CatalogExtScan(scan, index, fileMetadata, strict, grouping(scan.readPartitionSchema), described(scan))
  }

  private def described(own: FileScan): Seq[DescribedScan] = table.descriptors.map { descriptor =>
    val files = index.described(descriptor.number)
    // What is known of columns is of the table's types and formats.
    files.push(own.partitionFilters, limit)
    val options = ReadOptions.resolve(table.copy(options = descriptor.options), readOptions, settings, conf)
    DescribedScan.of(spark, descriptor, own, dataSchema, files, options)
  }

  /** The keys that are read, where the tasks are to be as the partitions, and values are equal where Spark's are. */
  private def grouping(read: StructType): Seq[String] =
    if (!index.isRegistered || table.descriptors.nonEmpty || !settings.flag(CatalogExtScan.DataGrouping)) Nil
    else read.filter(field => index.keys.fieldNames.contains(field.name) && IndexAnswers.isAnswered(field.dataType))
      .map(_.name)

  /** The data columns of which the index may know something in the files that a reader takes for the same. */
  private lazy val known: StructType =
    if (table.descriptors.isEmpty &&
        FileSkipping.isByName(table.format, options, spark.sessionState.newHadoopConf().get(_: String))) dataSchema
    else StructType(Nil)

  private def skipping(filters: Seq[Expression]): Option[FileSkipping] =
    if (index.isRegistered && settings.flag(FileSkipping.Setting))
      FileSkipping.of(known, StructType(dataSchema ++ index.partitionSchema), filters)
    else None

  private def strict: Option[String] = if (index.isRegistered) settings.text(StrictMode.Setting) else None

  private def isFileMetadata(name: String): Boolean =
    name == FileFormat.METADATA_NAME && !(dataSchema.fieldNames ++ index.keys.fieldNames).contains(name)
}

/**
 * One scan of a table: Spark's file scan, with the files from the index, statistics from the index, filters that a
 * join finds while running, and the `_metadata` column.
 *
 * @param strict the setting that asks for a predicate on a partition column
 * @param grouped the keys by whose values Spark may join and group without a shuffle: each task reads one partition
 * @param described the partitions that are not read as the table
 */
class CatalogExtScan(
    val inner: FileScan,
    val index: PlannedFileIndex,
    val fileMetadata: Option[StructType],
    strict: Option[String],
    val grouped: Seq[String],
    val described: Seq[DescribedScan] = Nil)
  extends Scan with SupportsReportStatistics with SupportsReportPartitioning with RuntimeFiltered
  with SupportsMetadata {

  /** The files that filters known to the plan leave, which the service is asked for. */
  def inputFiles: Array[String] = (index +: described.map(_.index)).flatMap(_.inputFiles).toArray

  private def tableName = s"${index.catalogName}.${index.table.qualifiedName}"

  // Spark calls filter and then toBatch on one thread. A plan may hold this scan twice with only one of the two
  // filtered, so that the filter goes to the next toBatch of that thread and to no other.
  private val pending = new ThreadLocal[Seq[Expression]]

  override def readSchema(): StructType =
    StructType(inner.readSchema() ++ fileMetadata.map(StructField(FileFormat.METADATA_NAME, _, nullable = false)))

  override def filterAttributes(): Array[NamedReference] =
    inner.readPartitionSchema.fieldNames.map(name => FieldReference(Seq(name)))

  override protected def found(filters: Seq[Expression]): Unit = pending.set(
    Option(pending.get()).getOrElse(Nil) ++ PartitionFilter.fromRuntime(index.partitionSchema, filters))

  // How many there will be is known only when a join has said which, and Spark does not ask.
  override def outputPartitioning(): Partitioning =
    if (grouped.isEmpty) new UnknownPartitioning(0)
    else new KeyGroupedPartitioning(
      grouped.map(key => Expressions.identity(quoteIdentifier(key))).toArray, index.table.totals.partitions.toInt)

  override def toBatch: Batch = {
    val filters = Option(pending.get()).getOrElse(Nil)
    pending.remove()
    checkStrict()
    new CatalogExtBatch(this, filters)
  }

  /** Raises an error in strict mode, if no filter of this scan limits one of the table's partition columns. */
  def checkStrict(): Unit = strict.foreach(StrictMode.check(tableName, index.namedKeys, inner.partitionFilters, _))

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    if (described.nonEmpty) throw ConnectorErrors.notSupported(
      s"Table $tableName has partitions that are not read as the table (${described.head.descriptor.format}), which a " +
        "stream cannot read. INSERT OVERWRITE these partitions, which gives them the table's format.")
    new CatalogExtMicroBatchStream(inner.sparkSession, index.client, index, checkpointLocation)
  }

  /** Known without the files, so that planning need not list before a join's filter is there. */
  override lazy val columnarSupportMode: ColumnarSupportMode =
    if (readerFactory.supportColumnarReads(null)) ColumnarSupportMode.SUPPORTED else ColumnarSupportMode.UNSUPPORTED

  lazy val readerFactory: PartitionReaderFactory = {
    val own = registered(inner, index, index.table.format)
    if (described.isEmpty) own
    else new DescribedReaderFactory(own, described.map { part =>
      val metadata = fileMetadata.map(BoundReference(part.inner.readSchema().length, _, nullable = false))
      registered(part.inner, part.index, part.descriptor.format) -> (part.rows ++ metadata)
    }.toArray)
  }

  private def registered(scan: FileScan, of: PlannedFileIndex, format: String): PartitionReaderFactory = {
    val readers = scan.createReaderFactory().asInstanceOf[FilePartitionReaderFactory]
    val files = FileReaders.of(readers, index.isRegistered, index.keys.fieldNames.toSeq)
    val withMetadata = fileMetadata.fold(files)(new FileMetadataReaderFactory(files, _, index.options))
    val version = Option.when(index.isRegistered)(index.table.version)
    new RegisteredFileReaderFactory(
      withMetadata, of.fileMaker(scan.readPartitionSchema), index.catalogName, index.table.qualifiedName, format, version)
  }

  private def totals: (Long, Option[Long]) = (index +: described.map(_.index)).map(_.totals).reduce { (one, other) =>
    (one._1 + other._1, one._2.flatMap(sum => other._2.map(sum + _)))
  }

  private type Columns = java.util.Map[NamedReference, colstats.ColumnStatistics]
  // Those of the whole table say nothing about some of its files.
  private lazy val columnStatistics: Columns =
    if (index.choosesFiles) java.util.Map.of() else ColumnStatistics.of(index.table, totals._2)

  override def estimateStatistics(): Statistics = {
    val (bytes, rows) = totals
    val whole = math.max(inner.dataSchema.defaultSize + index.keys.defaultSize, 1)
    // Columns that say which file a row comes from add nothing to what is read.
    val read = math.min(readSchema().defaultSize, whole)
    val factor = inner.sparkSession.sessionState.conf.fileCompressionFactor
    new Statistics {
      override def sizeInBytes(): OptionalLong = OptionalLong.of((factor * bytes / whole * read).toLong)
      override def numRows(): OptionalLong = rows.fold(OptionalLong.empty())(OptionalLong.of)
      override def columnStats(): Columns = columnStatistics
    }
  }

  // Set when a batch of this scan has been planned, which comes before Spark asks.
  @volatile private[catalogext] var choice: Option[ScanChoice] = None
  @volatile private[catalogext] var packingNanos = 0L

  override def supportedCustomMetrics(): Array[CustomMetric] = ReadMetrics.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] = choice.fold(Array.empty[CustomTaskMetric]) { chosen =>
    val cost = (index +: described.map(_.index)).map(_.cost).reduce(_ + _)
    // The other files of an ad-hoc path are unknown.
    val all = if (index.isRegistered) ReadMetrics.ofTable(index.table.totals) else Array.empty[CustomTaskMetric]
    chosen.metrics ++ all ++ cost.metrics :+ DriverMetric("packingTime", packingNanos / 1000000)
  }

  override def description(): String = {
    val chosen = index.description(chosenOf).toSeq.sorted.map { case (name, value) => s"$name: $value" }
    s"$tableName ${inner.description()} ${chosen.mkString(", ")}"
  }

  override def getMetaData(): Map[String, String] =
    inner.getMetaData() ++ index.description(chosenOf)

  // Of several formats each index knows its own files.
  private def chosenOf: Option[ScanChoice] = choice.orElse(
    Option.when(described.nonEmpty)((index +: described.map(_.index)).map(_.choice).reduce(_ + _)))

  override def equals(other: Any): Boolean = other match {
    case that: CatalogExtScan =>
      inner == that.inner && fileMetadata == that.fileMetadata && index.limit == that.index.limit &&
        grouped == that.grouped
    case _ => false
  }

  override def hashCode(): Int = inner.hashCode()
}

object CatalogExtScan {
  val DataGrouping = "preserve-data-grouping"
  val MaxStaleness = "max-staleness"
}

/** The partitions of a scan, planned once; `runtime` are the filters that a join found. */
class CatalogExtBatch(val scan: CatalogExtScan, val runtime: Seq[Expression]) extends Batch {
  private lazy val partitions: Array[InputPartition] = {
    val files = scan.index.files(runtime)
    val others = scan.described.map(part => part -> part.index.files(runtime))
    scan.choice = Some(others.map(_._2.choice).foldLeft(files.choice)(_ + _))
    val began = System.nanoTime()
    try scan.index.partitions(files, FileReaders.isSplitable(scan.inner), scan.grouped) ++
      others.zipWithIndex.flatMap { case ((part, found), number) =>
        part.index.partitions(found, FileReaders.isSplitable(part.inner), Nil).map(DescribedFilePartition(number, _))
      }
    finally scan.packingNanos = System.nanoTime() - began
  }

  override def planInputPartitions(): Array[InputPartition] = partitions
  override def createReaderFactory(): PartitionReaderFactory = scan.readerFactory

  override def equals(other: Any): Boolean = other match {
    case that: CatalogExtBatch => scan == that.scan && runtime == that.runtime
    case _ => false
  }

  override def hashCode(): Int = scan.hashCode()
}
