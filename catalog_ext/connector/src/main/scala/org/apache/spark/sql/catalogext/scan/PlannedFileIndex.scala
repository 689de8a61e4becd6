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
 * The files of one table at one version, asked of the service at most once for one scan.
 *
 * Spark drops partition filters after it has pushed them, so this class evaluates them exactly; what it sends to the
 * service only saves transport. It belongs to one scan and stays on the driver.
 *
 * @param keys the partition columns as Spark's readers see them: a key that a data column hides is renamed
 * @param shared what the references to the table hold together
 * @param descriptor of the partitions among which alone to look, by its number, 0 for the table's; None where all
 *                   partitions are read as the table
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
  // With the table's own types, which say what of a text is the value.
  private val typedKeys = StructType(keys.zip(table.partitionColumns).map { case (key, own) =>
    key.copy(dataType = own.dataType)
  })
  private val padded = PartitionColumns.padded(table, spark.sessionState.conf)
  protected var pushed: Seq[Expression] = Nil
  private var maxStaleness: Option[Long] = None
  // A held DataFrame gives its next run the same table, if no version has come since, and is another statement then.
  private val statement = Option(spark.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
    .fold(shared.statement)(execution => s"${shared.statement}-$execution")
  private var limited: Option[Int] = None
  private var skipping: Option[FileSkipping] = None
  private var listed: Option[ChosenFiles] = None
  // Of what this reference has asked for itself, and no other one for it.
  private var spent = PlanningCost(0, 0)
  // The other references to the table find it for as long as this one keeps it.
  private var held: Option[HeldFiles] = None

  /**
   * The partition filters of the scan, before anything is listed, how many rows are enough, and what leaves out files
   * by their columns.
   */
  def push(filters: Seq[Expression], rows: Option[Int] = None, files: Option[FileSkipping] = None): Unit = synchronized {
    pushed = filters
    limited = rows
    skipping = files
  }

  /** How long ago, in milliseconds, what is read may have been compared with the store; before anything is listed. */
  def limitStaleness(to: Option[Long]): Unit = synchronized {
    maxStaleness = to
  }

  /** Whether the service has to see to it that what is read was compared with the store lately. */
  def hasStalenessLimit: Boolean = synchronized(maxStaleness.isDefined)

  private def staleness: JsonNode = synchronized(maxStaleness).fold[JsonNode](Null) { most =>
    obj("max_ms" -> long(most), "statement" -> text(statement))
  }

  /** So many rows are enough: files that hold them are. */
  def limit: Option[Int] = synchronized(limited)

  // Known without a query of its own, as for `totals`.
  private[catalogext] def choice: ScanChoice = synchronized {
    if (isWhole && limited.isEmpty) ScanChoice(table.totals.partitions, table.totals.files, table.totals.bytes)
    else static.choice
  }

  /** Whether nothing is listed, or known that leaves something out, so that the totals of the table hold. */
  private def isWhole: Boolean = listed.isEmpty && descriptor.isEmpty && !choosesFiles && pushed.forall(_.isInstanceOf[IsNotNull])

  /** Whether the options of the read leave out files of the table by their names or times. */
  def choosesFiles: Boolean = !fileFilters.isEmpty

  /**
   * Size in bytes and row count of what the static filters leave. Lists only when a filter was pushed that can leave
   * something out: Spark pushes IS NOT NULL for every join key, and listing for that would come before the filter
   * that the join itself will find.
   */
  def totals: (Long, Option[Long]) = synchronized {
    if (isWhole) (table.totals.bytes, table.totals.rows) else listedTotals
  }

  // The optimizer asks many times.
  protected lazy val listedTotals: (Long, Option[Long]) = (static.choice.bytes, static.rows)

  /** The names of the partitions that the static filters leave. */
  def partitionNames: Seq[String] = synchronized(static.partitions.map(_.name).toSeq)

  /** The files that the static filters leave, and `runtime`, those that a join found. */
  def files(runtime: Seq[Expression]): ChosenFiles = synchronized {
    if (runtime.isEmpty) static else listed.fold(measured(planned(pushed ++ runtime)))(_.filtered(choosing(runtime)))
  }

  /**
   * The tasks' shares of files, spread as Spark spreads those of a scan of its own.
   *
   * @param grouped the keys, if any, by whose values the files of a task are alike
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

  /** Makes Spark's files in tasks, with the values of the partition columns that a scan reads. */
  def fileMaker(read: StructType): FileMaker =
    FileMaker(table.location, typedKeys, zone, padded, fileColumns, read.fieldNames.map(partitionSchema.fieldIndex).toSeq)

  /** What this index has spent so far. */
  private[catalogext] def cost: PlanningCost = synchronized(spent)

  private def measured[T](ask: => T): T = {
    val (requests, began) = (client.requestsOfThread, System.nanoTime())
    try ask
    finally spent += PlanningCost(client.requestsOfThread - requests, System.nanoTime() - began)
  }

  protected def static: ChosenFiles = {
    if (listed.isEmpty) {
      val filters = pushed.map(PartitionFilter.bound(partitionSchema, _).canonicalized).toSet
      // The session's settings can differ from one statement of a held table to the next.
      val way = (partitionSchema, zone, padded, options, filters, limited, skipping.map(_.key),
        maxStaleness.map(_ -> statement), descriptor)
      held = Some(shared.of(way))
      listed = held.map(_.files(measured(planned(pushed))))
    }
    listed.get
  }

  /** The partition columns that a query of this session can name. */
  def namedKeys: Seq[String] = {
    val conf = spark.sessionState.conf
    val named = table.declared || ResolvedSettings.virtualColumnsShown(client, catalogName, table, conf)
    if (named) PartitionColumns.visible(table, conf.resolver).map(_.name) else Nil
  }

  /** Whether strict mode lets a read with these filters pass. */
  def isLimited(filters: Seq[Expression]): Boolean = StrictMode.isSatisfied(namedKeys, filters)

  /** Whether the files are those of a registered table. */
  def isRegistered: Boolean = true

  /** What EXPLAIN says of the files; `planned` is what the scan has planned, if it has. */
  def description(planned: Option[ScanChoice]): Map[String, String] =
    planned.getOrElse(choice).shown(table.totals) + ("Version" -> table.version.toString)

  protected def isListed: Boolean = listed.isDefined

  /** The files that filters leave: the service gives at least these, and what it gives is evaluated exactly. */
  protected def planned(filters: Seq[Expression]): ChosenFiles = {
    val all = named(filters)
    val left = all.filter(filter => PartitionFilter.isOf(keys, filter) && !saysExactly(Seq(filter)))
    val predicate = translator.translate(all)
    val among = new PartitionChoice(client, table, keys, () => values).among(predicate, left)
    PlannedFiles.fetch(client, table, choosing(filters), predicate, among, limited, skipping, staleness, descriptor)
  }

  /** The same of the partitions that have another descriptor. */
  def described(number: Long): PlannedFileIndex = {
    val other = new PlannedFileIndex(spark, client, catalogName, table, keys, options, shared, Some(number))
    other.limitStaleness(synchronized(maxStaleness))
    other
  }

  // What is padded to a query compares otherwise than in the index, which has CHAR values without blanks.
  private lazy val translator: PredicateTranslator = {
    val columns = keys.fieldNames.zip(table.partitionColumns.fieldNames).zipWithIndex
      .collect { case (names, i) if !padded.contains(i) => names }.toMap
    new PredicateTranslator(columns, DateTimeUtils.getZoneId(zone), PredicateTranslator.chars(table.partitionColumns))
  }

  /** Whether a predicate of the contract has the very value of each of the filters. */
  def saysExactly(filters: Seq[Expression]): Boolean = filters.forall(translator.exactly(_).isDefined)

  /** Whether filters are of partition columns alone, and of all rows of a partition. */
  def areOfKeys(filters: Seq[Expression]): Boolean = filters.forall(PartitionFilter.isOf(keys, _))

  /**
   * What `into` makes of partitions, together where the keys at the given places are equal. It is given the filters that
   * it has to evaluate on them.
   *
   * @param wanted one of `PartitionGroups`
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
   * What `into` makes of the files of partitions, one by one, with what is known of data columns. It evaluates all the
   * filters: a plan may have more partitions than its predicate chooses.
   */
  def eachFile[T <: GroupConsumer](filters: Seq[Expression], fields: Seq[StructField])(into: PartitionFilter => T): T = {
    val filter = new PartitionFilter(keys, filters)
    PlannedFiles.fetchEach(client, table, values, translator.translate(filters), fields, staleness)(into(filter))
  }

  /**
   * The rows of the files whose counts are known, and the other files. `into` is given no filters: both are of the
   * partitions that `filters` leave.
   */
  def uncounted(filters: Seq[Expression])(into: PartitionFilter => AnswerRows): (AnswerRows, ChosenFiles) = synchronized {
    val (choice, files) = measured(PlannedFiles.fetchUncounted(client, table, translator.translate(filters), staleness)(
      new UncountedFiles(new PartitionFilter(keys, filters), values, into(new PartitionFilter(keys, Nil)))))
    (choice.into, files)
  }

  /** Reads footers of files of the table's format. */
  def footers: FooterJob = FooterJob.of(spark, catalogName, table, options.asCaseSensitiveMap().asScala.toMap)

  /** The filters, and what those on a partition's name say of its keys. */
  protected def named(filters: Seq[Expression]): Seq[Expression] = filters ++ FileColumns.ofKeys(typedKeys, zone, filters)

  /** Partitions' names as the rows that a query sees. */
  def values: PartitionValues = new PartitionValues(typedKeys, zone, padded)

  /** What filters and the options of the read leave. */
  def choosing(filters: Seq[Expression]): FileChoice =
    new FilteredFiles(keys, fileColumns, values, filters, fileFilters, table.location)

  override def partitionSpec(): PartitionSpec = PartitionSpec(partitionSchema, Nil)
  override def rootPaths: Seq[Path] = Seq(new Path(table.location))
  override def sizeInBytes: Long = totals._1

  /** The files that the static filters leave, spelled as `input_file_name()` does. */
  override def inputFiles: Array[String] = synchronized(static).partitions.flatMap { partition =>
    val directory = partition.directory(table.location)
    (0 until partition.count).map(file => SparkPath.fromPath(partition.status(file, directory).getPath).urlEncoded)
  }.toArray
  override def refresh(): Unit = ()

  // Spark's own scan would ask for an object a file, and newer ones keep what they make of them.
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    neverListed

  // What Spark would find by listing directories; nothing may list here.
  override protected def leafFiles: mutable.LinkedHashMap[Path, FileStatus] = neverListed
  override protected def leafDirToChildrenFiles: ImmutableMap[Path, Array[FileStatus]] = neverListed
  private def neverListed: Nothing = throw new IllegalStateException("files come from the index, not from a listing")

  // Plans are reused where these say that they read the same.
  override def equals(other: Any): Boolean = other match {
    case that: PlannedFileIndex =>
      catalogName == that.catalogName && table == that.table && partitionSchema == that.partitionSchema &&
        zone == that.zone && options == that.options && maxStaleness == that.maxStaleness &&
        descriptor == that.descriptor
    case _ => false
  }

  override def hashCode(): Int = (catalogName, table.tableId, table.version).hashCode()
}
