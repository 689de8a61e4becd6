package org.apache.spark.sql.catalogext.scan

import scala.collection.immutable.{Map => ImmutableMap}
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{KeyZone, PartitionColumns, PartitionValues, ResolvedSettings,
  TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow, IsNotNull}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.datasources.{PartitionDirectory, PartitioningAwareFileIndex, PartitionSpec}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The files of one table at one version, requested from the service at most once for a scan.
 *
 * Spark drops partition filters after it has pushed them down, so this class evaluates them exactly. Sending them to
 * the service only reduces the transfer. An instance belongs to one scan and stays on the driver.
 *
 * @param keys the partition columns as Spark's readers see them: a key that a data column hides is renamed
 * @param shared state of all references to the table
 * @param descriptor number of the descriptor whose partitions alone are read, 0 for the table's own; None if all
 *                   partitions are read
 */
class PlannedFileIndex(
    spark: SparkSession,
    val client: ServiceClient,
    val catalogName: String,
    val table: TableMetadata,
    val keys: StructType,
    val options: CaseInsensitiveStringMap,
    shared: SharedFiles,
    val descriptor: Option[Long] = None)
  extends PartitioningAwareFileIndex(spark, ImmutableMap.empty, None) {

  private val fileColumns = FileColumns.visible(table, spark.sessionState.conf.resolver)
  override val partitionSchema: StructType = StructType(keys ++ fileColumns)
  private val zone = KeyZone.of(table, spark.sessionState.conf, options)
  private val fileFilters = new FileFilters(options)
  // Use the table's own types (CHAR, VARCHAR), which decide how the text in a directory name becomes a value.
  private val typedKeys = StructType(keys.zip(table.partitionColumns).map { case (key, own) =>
    key.copy(dataType = own.dataType)
  })
  private val padded = PartitionColumns.padded(table, spark.sessionState.conf)
  protected var pushed: Seq[Expression] = Nil
  private var maxStaleness: Option[Long] = None
  // Include the execution's id: a reused DataFrame passes the same table object to its next execution, which is a
  // statement of its own.
  private val statement = Option(spark.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
    .fold(shared.statement)(execution => s"${shared.statement}-$execution")
  private var limited: Option[Int] = None
  private var skipping: Option[FileSkipping] = None
  private var listed: Option[ChosenFiles] = None
  // The cost of this reference's own requests. Files that another reference has requested cost nothing here.
  private var spent = PlanningCost(0, 0)
  // Keep a strong reference to the shared files, so that they stay available to other references of the statement.
  private var held: Option[HeldFiles] = None

  /**
   * Sets the partition filters, the number of rows that is enough, and the file skipping. Must be called before any
   * file is requested.
   */
  def push(filters: Seq[Expression], rows: Option[Int] = None, files: Option[FileSkipping] = None): Unit = synchronized {
    pushed = filters
    limited = rows
    skipping = files
  }

  /**
   * Sets the maximum time in milliseconds since the last comparison with the store. Must be called before any file is
   * requested.
   */
  def limitStaleness(to: Option[Long]): Unit = synchronized {
    maxStaleness = to
  }

  /** Whether the service must check how recently the partitions were compared with the store. */
  def hasStalenessLimit: Boolean = synchronized(maxStaleness.isDefined)

  private def staleness: JsonNode = synchronized(maxStaleness).fold[JsonNode](Null) { most =>
    obj("max_ms" -> long(most), "statement" -> text(statement))
  }

  /** The number of rows that is enough, if the query has a limit: files with that many rows are read. */
  def limit: Option[Int] = synchronized(limited)

  // Available without a request; see `totals`.
  private[catalogext] def choice: ScanChoice = synchronized {
    if (isWhole && limited.isEmpty) ScanChoice(table.totals.partitions, table.totals.files, table.totals.bytes)
    else static.choice
  }

  /** Whether the table's totals are the totals of this scan: no file was requested, and no filter excludes any. */
  private def isWhole: Boolean = listed.isEmpty && descriptor.isEmpty && !choosesFiles && pushed.forall(_.isInstanceOf[IsNotNull])

  /** Whether the read's options exclude files by name or time. */
  def choosesFiles: Boolean = !fileFilters.isEmpty

  /**
   * Size in bytes and row count after static filters. It requests the files only if a pushed filter can exclude some.
   * Spark pushes IS NOT NULL for every join key; a request for these would come before the join's runtime filter.
   */
  def totals: (Long, Option[Long]) = synchronized {
    if (isWhole) (table.totals.bytes, table.totals.rows) else listedTotals
  }

  // Keep the totals, because the optimizer asks for them many times.
  protected lazy val listedTotals: (Long, Option[Long]) = (static.choice.bytes, static.rows)

  /** The names of the partitions after static filters. */
  def partitionNames: Seq[String] = synchronized(static.partitions.map(_.name).toSeq)

  /** The files after static filters and after `runtime`, a join's filters. */
  def files(runtime: Seq[Expression]): ChosenFiles = synchronized {
    if (runtime.isEmpty) static else listed.fold(measured(planned(pushed ++ runtime)))(_.filtered(choosing(runtime)))
  }

  /**
   * The tasks' files, distributed as Spark does.
   *
   * @param grouped the keys that must be equal within a task; may be empty
   */
  def partitions(files: ChosenFiles, isSplitable: Path => Boolean, grouped: Seq[String]): Array[InputPartition] = {
    val blocks = FileBlocks.of(files, table.location, spark.sparkContext.conf, hadoopConf)
    FilePacking.of(spark, files.choice)
      .pack(files, isSplitable, table.location, blocks, Option.when(grouped.nonEmpty)(keyOf(grouped)))
  }

  private def keyOf(grouped: Seq[String]): DirectoryFiles => InternalRow = {
    val (places, known) = (grouped.map(keys.fieldIndex), values)
    directory => {
      val all = known.parse(directory.name).asInstanceOf[GenericInternalRow]
      new GenericInternalRow(places.map(all.values(_)).toArray)
    }
  }

  /** Creates Spark's file objects in tasks, with the values of the partition columns that a scan reads. */
  def fileMaker(read: StructType): FileMaker =
    FileMaker(table.location, typedKeys, zone, padded, fileColumns, read.fieldNames.map(partitionSchema.fieldIndex).toSeq)

  /** The cost of this index so far. */
  private[catalogext] def cost: PlanningCost = synchronized(spent)

  private def measured[T](ask: => T): T = {
    val (requests, began) = (client.requestsOfThread, System.nanoTime())
    try ask
    finally spent += PlanningCost(client.requestsOfThread - requests, System.nanoTime() - began)
  }

  protected def static: ChosenFiles = {
    if (listed.isEmpty) {
      val filters = pushed.map(PartitionFilter.bound(partitionSchema, _).canonicalized).toSet
      // The session's settings are part of the key: they can differ between two statements that use the same table
      // object.
      val way = (partitionSchema, zone, padded, options, filters, limited, skipping.map(_.key),
        maxStaleness.map(_ -> statement), descriptor)
      held = Some(shared.of(way))
      listed = held.map(_.files(measured(planned(pushed))))
    }
    listed.get
  }

  /** The partition columns that a query in this session can name. */
  def namedKeys: Seq[String] = {
    val conf = spark.sessionState.conf
    val named = table.declared || ResolvedSettings.virtualColumnsShown(client, catalogName, table, conf)
    if (named) PartitionColumns.visible(table, conf.resolver).map(_.name) else Nil
  }

  /** Whether strict mode permits a read with these filters. */
  def isLimited(filters: Seq[Expression]): Boolean = StrictMode.isSatisfied(namedKeys, filters)

  /** Whether the files are those of a registered table. */
  def isRegistered: Boolean = true

  /**
   * The files in EXPLAIN, as texts by label; `planned` has the numbers of the planned scan, None before it is planned.
   */
  def description(planned: Option[ScanChoice]): Map[String, String] =
    planned.getOrElse(choice).shown(table.totals) + ("Version" -> table.version.toString)

  protected def isListed: Boolean = listed.isDefined

  /** The files after the filters. The service returns a superset, on which the filters are evaluated exactly. */
  protected def planned(filters: Seq[Expression]): ChosenFiles = {
    val all = named(filters)
    val left = all.filter(filter => PartitionFilter.isOf(keys, filter) && !saysExactly(Seq(filter)))
    val predicate = translator.translate(all)
    val among = new PartitionChoice(client, table, keys, () => values).among(predicate, left)
    PlannedFiles.fetch(client, table, choosing(filters), predicate, among, limited, skipping, staleness, descriptor)
  }

  /** The files of the partitions with another descriptor. */
  def described(number: Long): PlannedFileIndex = {
    val other = new PlannedFileIndex(spark, client, catalogName, table, keys, options, shared, Some(number))
    other.limitStaleness(synchronized(maxStaleness))
    other
  }

  // Padded CHAR values of a query must not be compared with the index's values, which are not padded: pass the CHAR
  // columns.
  private lazy val translator: PredicateTranslator = {
    val columns = keys.fieldNames.zip(table.partitionColumns.fieldNames).zipWithIndex
      .collect { case (names, i) if !padded.contains(i) => names }.toMap
    new PredicateTranslator(columns, DateTimeUtils.getZoneId(zone), PredicateTranslator.chars(table.partitionColumns))
  }

  /** Whether the contract can express each filter exactly. */
  def saysExactly(filters: Seq[Expression]): Boolean = filters.forall(translator.exactly(_).isDefined)

  /** Whether filters use only partition columns, so that they are true for all rows of a partition or for none. */
  def areOfKeys(filters: Seq[Expression]): Boolean = filters.forall(PartitionFilter.isOf(keys, _))

  /**
   * Passes groups of partitions with equal keys at the given positions to the consumer that `into` returns. `into` gets
   * the filters that the consumer must evaluate.
   *
   * @param wanted the kind of groups: `Each` or another constant of `PartitionGroups`
   */
  def groups[T <: GroupConsumer](filters: Seq[Expression], at: Seq[Int], wanted: String)(
      into: PartitionFilter => T): T = {
    val left = filters.filter(filter => !saysExactly(Seq(filter)))
    val of = left.flatMap(_.references).map(a => keys.indexWhere(f => spark.sessionState.conf.resolver(f.name, a.name)))
    val names = (at ++ of).distinct.map(table.partitionColumns(_).name)
    val filter = new PartitionFilter(keys, left)
    PartitionGroups.fetch(client, table, values, translator.translate(filters), names, wanted,
      staleness = staleness)(into(filter))
  }

  /**
   * Passes the files of partitions one by one, with column statistics, to the consumer that `into` returns. The
   * consumer must evaluate all filters, because the service returns a superset of the partitions.
   */
  def eachFile[T <: GroupConsumer](filters: Seq[Expression], fields: Seq[StructField])(into: PartitionFilter => T): T = {
    val filter = new PartitionFilter(keys, filters)
    PlannedFiles.fetchEach(client, table, values, translator.translate(filters), fields, staleness)(into(filter))
  }

  /**
   * The answer so far, from files with known row counts; and the files without. `into` gets no filters, because both
   * contain only partitions that match `filters`.
   */
  def uncounted(filters: Seq[Expression])(into: PartitionFilter => AnswerRows): (AnswerRows, ChosenFiles) = synchronized {
    val (choice, files) = measured(PlannedFiles.fetchUncounted(client, table, translator.translate(filters), staleness)(
      new UncountedFiles(new PartitionFilter(keys, filters), values, into(new PartitionFilter(keys, Nil)))))
    (choice.into, files)
  }

  /** The job that reads footers of files of the table's format. */
  def footers: FooterJob = FooterJob.of(spark, catalogName, table, options.asCaseSensitiveMap().asScala.toMap)

  /** The filters, plus filters on keys that follow from filters on the partition's name. */
  protected def named(filters: Seq[Expression]): Seq[Expression] = filters ++ FileColumns.ofKeys(typedKeys, zone, filters)

  /** Converts partition names to rows as the query sees them. */
  def values: PartitionValues = new PartitionValues(typedKeys, zone, padded)

  /** Selects the files that match the filters on partition and file columns and the read's options. */
  def choosing(filters: Seq[Expression]): FileChoice =
    new FilteredFiles(keys, fileColumns, values, filters, fileFilters, table.location)

  override def partitionSpec(): PartitionSpec = PartitionSpec(partitionSchema, Nil)
  override def rootPaths: Seq[Path] = Seq(new Path(table.location))
  override def sizeInBytes: Long = totals._1

  /** The files after static filters, spelled as `input_file_name()` does. */
  override def inputFiles: Array[String] = synchronized(static).partitions.flatMap { partition =>
    val directory = partition.directory(table.location)
    (0 until partition.count).map(file => SparkPath.fromPath(partition.status(file, directory).getPath).urlEncoded)
  }.toArray
  override def refresh(): Unit = ()

  // Not used: Spark's own scan would request an object for each file, and newer releases cache them.
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    neverListed

  // Not used: Spark would list directories here.
  override protected def leafFiles: mutable.LinkedHashMap[Path, FileStatus] = neverListed
  override protected def leafDirToChildrenFiles: ImmutableMap[Path, Array[FileStatus]] = neverListed
  private def neverListed: Nothing = throw new IllegalStateException("files come from the index, not from a listing")

  // Equal if they read the same files, because Spark reuses plans whose indexes are equal.
  override def equals(other: Any): Boolean = other match {
    case that: PlannedFileIndex =>
      catalogName == that.catalogName && table == that.table && partitionSchema == that.partitionSchema &&
        zone == that.zone && options == that.options && maxStaleness == that.maxStaleness &&
        descriptor == that.descriptor
    case _ => false
  }

  override def hashCode(): Int = (catalogName, table.tableId, table.version).hashCode()
}
