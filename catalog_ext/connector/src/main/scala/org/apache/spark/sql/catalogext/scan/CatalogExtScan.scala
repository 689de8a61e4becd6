package org.apache.spark.sql.catalogext.scan

import java.util.OptionalLong

import scala.jdk.CollectionConverters._

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

/** Builds a scan with Spark's own builder for the format, over the files of the index that `files` creates. */
class CatalogExtScanBuilder(
    spark: SparkSession,
    client: ServiceClient,
    catalogName: String,
    table: TableMetadata,
    readOptions: CaseInsensitiveStringMap,
    files: (StructType, CaseInsensitiveStringMap) => PlannedFileIndex)
  extends FilteredBuilder(spark) with SupportsPushDownRequiredColumns with SupportsPushDownAggregates
  with SupportsPushDownLimit {

  /** A builder over the table's files in the index. */
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
  if (index.isRegistered && !table.pinned) index.limitStaleness(settings.long(CatalogExtScan.MaxStaleness))
  private val inner: FileScanBuilder = SparkScans.of(spark, table, table.format, index,
    StructType(dataSchema ++ index.partitionSchema), dataSchema, options)
  private var fileMetadata: Option[StructType] = None

  override def pruneColumns(required: StructType): Unit = {
    val (metadata, columns) = required.partition(field => isFileMetadata(field.name))
    fileMetadata = metadata.headOption.map(_.dataType.asInstanceOf[StructType])
    inner.pruneColumns(StructType(columns.map(whole)))
  }

  // Read structs whole if the table has partitions with descriptors: not every format prunes the fields of structs, and
  // all readers of a scan must return the same columns.
  private def whole(field: StructField): StructField =
    if (table.descriptors.isEmpty) field else dataSchema.find(_.name == field.name).getOrElse(field)

  /** Returns the filters that Spark must evaluate again after the scan. */
  override def pushFilters(filters: Seq[Expression]): Seq[Expression] = {
    // Filters on the `_metadata` column or with Python functions: neither the index nor a reader can evaluate them.
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
          settings.flag(LearnedCounts.Setting) && !table.pinned).answer(aggregation)
        else None))
    }
    asked.get._2
  }

  // Spark asks this before pushAggregation. The aggregation is pushed down only if the index can answer all of it.
  override def supportCompletePushDown(aggregation: Aggregation): Boolean = answered(aggregation).isDefined

  override def pushAggregation(aggregation: Aggregation): Boolean = {
    answer = answered(aggregation)
    answer.isDefined
  }

  /**
   * Accepts a limit, so that only enough files are read. Spark pushes a limit only if no filter remains after the scan.
   * It discards excess rows itself.
   */
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
    // Partitions with a descriptor get no file skipping: the index has column statistics for the table's own types and
    // formats only.
    files.push(own.partitionFilters, limit)
    val options = ReadOptions.resolve(table.copy(options = descriptor.options), readOptions, settings, conf)
    DescribedScan.of(spark, descriptor, own, dataSchema, files, options)
  }

  /**
   * The keys by which Spark can group without a shuffle, because each task reads one partition. Only keys that the
   * query reads, and whose values are equal in the index exactly if they are equal in Spark.
   */
  private def grouping(read: StructType): Seq[String] =
    if (!index.isRegistered || table.descriptors.nonEmpty || !settings.flag(CatalogExtScan.DataGrouping)) Nil
    else read.filter(field => index.keys.fieldNames.contains(field.name) && IndexAnswers.isAnswered(field.dataType))
      .map(_.name)

  /** The data columns for which the index may have statistics that agree with the values of Spark's reader. */
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
 * A scan of a table: Spark's file scan, plus files and statistics from the index, runtime filters of joins, and the
 * `_metadata` column.
 *
 * @param strict the setting that requires a predicate on a partition column
 * @param grouped the keys by which Spark may join and group without a shuffle: each task reads one partition
 * @param described the scans of partitions that have another format, other options or other columns than the table
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

  /** The files after all static filters, for `Dataset.inputFiles`; the service is asked for them. */
  def inputFiles: Array[String] = (index +: described.map(_.index)).flatMap(_.inputFiles).toArray

  private def tableName = s"${index.catalogName}.${index.table.qualifiedName}"

  // Spark calls filter and then toBatch on one thread. A plan may contain this scan twice, only once with a runtime
  // filter. So the filter belongs to the next toBatch of its thread only.
  private val pending = new ThreadLocal[Seq[Expression]]

  override def readSchema(): StructType =
    StructType(inner.readSchema() ++ fileMetadata.map(StructField(FileFormat.METADATA_NAME, _, nullable = false)))

  override def filterAttributes(): Array[NamedReference] =
    inner.readPartitionSchema.fieldNames.map(name => FieldReference(Seq(name)))

  override protected def found(filters: Seq[Expression]): Unit = pending.set(
    Option(pending.get()).getOrElse(Nil) ++ PartitionFilter.fromRuntime(index.partitionSchema, filters))

  // The number of partitions is known only after the runtime filters; until then Spark does not need it.
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

  /** Raises an error in strict mode if no filter of this scan limits a partition column. */
  def checkStrict(): Unit = strict.foreach(StrictMode.check(tableName, index.namedKeys, inner.partitionFilters, _))

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    if (index.table.pinned) throw ConnectorErrors.notSupported(
      s"A stream cannot read table $tableName as of version ${index.table.version}. Leave out the version; the option " +
        "startingVersion says where a stream begins.")
    if (described.nonEmpty) throw ConnectorErrors.notSupported(
      s"Table $tableName has partitions that are not read as the table (${described.head.descriptor.format}), which a " +
        "stream cannot read. INSERT OVERWRITE these partitions, which gives them the table's format.")
    new CatalogExtMicroBatchStream(inner.sparkSession, index.client, index, checkpointLocation)
  }

  /**
   * Whether tasks return columnar batches. It is determined without the files: planning must not list them before a
   * join's runtime filter exists.
   */
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

  private lazy val pinned =
    PinnedReads.conf(inner.sparkSession, index.table, index.options.asCaseSensitiveMap().asScala.toMap)

  private def registered(scan: FileScan, of: PlannedFileIndex, format: String): PartitionReaderFactory = {
    val readers = scan.createReaderFactory().asInstanceOf[FilePartitionReaderFactory]
    val files = FileReaders.of(readers, index.isRegistered, index.keys.fieldNames.toSeq)
    val withMetadata = fileMetadata.fold(files)(new FileMetadataReaderFactory(files, _, index.options))
    val version = Option.when(index.isRegistered)(index.table.version)
    new RegisteredFileReaderFactory(
      withMetadata, of.fileMaker(scan.readPartitionSchema), index.catalogName, index.table.qualifiedName, format, version,
      pinned)
  }

  private def totals: (Long, Option[Long]) = (index +: described.map(_.index)).map(_.totals).reduce { (one, other) =>
    (one._1 + other._1, one._2.flatMap(sum => other._2.map(sum + _)))
  }

  private type Columns = java.util.Map[NamedReference, colstats.ColumnStatistics]
  // Column statistics of the whole table do not describe a part of its files.
  private lazy val columnStatistics: Columns =
    if (index.choosesFiles) java.util.Map.of() else ColumnStatistics.of(index.table, totals._2)

  override def estimateStatistics(): Statistics = {
    val (bytes, rows) = totals
    val whole = math.max(inner.dataSchema.defaultSize + index.keys.defaultSize, 1)
    // Leave hidden columns out of the estimated size: they are constants of each file.
    val read = math.min(readSchema().defaultSize, whole)
    val factor = inner.sparkSession.sessionState.conf.fileCompressionFactor
    new Statistics {
      override def sizeInBytes(): OptionalLong = OptionalLong.of((factor * bytes / whole * read).toLong)
      override def numRows(): OptionalLong = rows.fold(OptionalLong.empty())(OptionalLong.of)
      override def columnStats(): Columns = columnStatistics
    }
  }

  // Set when a batch of this scan has been planned; Spark asks for it afterwards.
  @volatile private[catalogext] var choice: Option[ScanChoice] = None
  @volatile private[catalogext] var packingNanos = 0L

  override def supportedCustomMetrics(): Array[CustomMetric] = ReadMetrics.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] = choice.fold(Array.empty[CustomTaskMetric]) { chosen =>
    val cost = (index +: described.map(_.index)).map(_.cost).reduce(_ + _)
    // For an ad-hoc path the number of all files is unknown.
    val all = if (index.isRegistered) ReadMetrics.ofTable(index.table.totals) else Array.empty[CustomTaskMetric]
    chosen.metrics ++ all ++ cost.metrics :+ DriverMetric("packingTime", packingNanos / 1000000)
  }

  override def description(): String = {
    val chosen = index.description(chosenOf).toSeq.sorted.map { case (name, value) => s"$name: $value" }
    s"$tableName ${inner.description()} ${chosen.mkString(", ")}"
  }

  override def getMetaData(): Map[String, String] =
    inner.getMetaData() ++ index.description(chosenOf)

  // With several formats, the index of each format knows its own files.
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

/** The tasks of a scan, planned once; `runtime` has the filters that a join found at run time. */
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
