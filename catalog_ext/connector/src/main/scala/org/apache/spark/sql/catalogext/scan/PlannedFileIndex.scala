package org.apache.spark.sql.catalogext.scan


import scala.collection.immutable.{Map => ImmutableMap}
import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{KeyZone, PartitionColumns, PartitionValues, ResolvedSettings,
  TableMetadata}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalyst.expressions.{Expression, IsNotNull}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.datasources.{PartitionDirectory, PartitioningAwareFileIndex, PartitionSpec}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The files of one table at one version, asked of the service at most once for one scan.
 *
 * Spark drops partition filters after it has pushed them, so this class evaluates them exactly; what it sends to the
 * service only saves transport. It belongs to one scan and stays on the driver.
 *
 * @param keys the partition columns as Spark's readers see them: a key that a data column hides is renamed
 */
class PlannedFileIndex(
    spark: SparkSession,
    val client: ServiceClient,
    val catalogName: String,
    val table: TableMetadata,
    val keys: StructType,
    val options: CaseInsensitiveStringMap)
  extends PartitioningAwareFileIndex(spark, ImmutableMap.empty, None) {

  private val fileColumns = FileColumns.visible(table, spark.sessionState.conf.resolver)
  override val partitionSchema: StructType = StructType(keys ++ fileColumns)
  private val zone = KeyZone.of(table, spark.sessionState.conf, options)
  private val fileFilters = new FileFilters(options)
  private val padded = PartitionColumns.padded(table, spark.sessionState.conf)
  private var showsFiles = false
  protected var pushed: Seq[Expression] = Nil
  private var limited: Option[Int] = None
  private var listed: Option[Seq[PlannedPartition]] = None
  private var runtime: Seq[Expression] = Nil
  private var ofBatch: Option[Seq[PlannedPartition]] = None
  private var chosen = ScanChoice(0, 0, 0)

  /** The partition filters and the partition columns of the scan, before anything is listed. */
  def push(filters: Seq[Expression], columns: StructType, rows: Option[Int] = None): Unit = synchronized {
    pushed = filters
    limited = rows
    showsFiles = columns.fieldNames.exists(fileColumns.fieldNames.contains)
  }

  /** So many rows are enough: files that hold them are. */
  def limit: Option[Int] = synchronized(limited)

  // Known without a query of its own, as for `totals`.
  private def choice: ScanChoice = synchronized {
    if (isWhole && limited.isEmpty) ScanChoice(table.totals.partitions, table.totals.files, table.totals.bytes)
    else ScanChoice.of(static)
  }

  /** Whether nothing is listed, or known that leaves something out, so that the totals of the table hold. */
  private def isWhole: Boolean = listed.isEmpty && !choosesFiles && pushed.forall(_.isInstanceOf[IsNotNull])

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
  protected lazy val listedTotals: (Long, Option[Long]) = {
    val partitions = static
    val rows = partitions.map(_.rows)
    (partitions.map(_.bytes).sum, if (rows.contains(None)) None else Some(rows.flatten.sum))
  }

  /** The names of the partitions that the static filters leave. */
  def partitionNames: Seq[String] = synchronized(static.map(_.name))

  /** Runs `plan` with `filters` added to the static ones, and says what they left. */
  def withRuntimeFilters[T](filters: Seq[Expression])(plan: => T): (T, ScanChoice) = synchronized {
    runtime = filters
    try (plan, chosen) finally runtime = Nil
  }

  /** Runs `plan` with these partitions in place of the table's: those of one batch of a stream. */
  def withPartitions[T](partitions: Seq[PlannedPartition])(plan: => T): T = synchronized {
    ofBatch = Some(partitions)
    try plan finally ofBatch = None
  }

  // FileScan passes the filters that push() was given.
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    synchronized {
      val partitions = ofBatch.map(fileFilters.accepted).getOrElse {
        if (runtime.isEmpty) static
        else listed.fold(fetch(pushed ++ runtime))(keep(_, runtime))
      }
      chosen = ScanChoice.of(partitions)
      partitions.flatMap(directories)
    }

  private def directories(partition: PlannedPartition): Seq[PartitionDirectory] =
    if (showsFiles) partition.files.map { file =>
      partition.copy(values = FileColumns.values(fileColumns, partition, file), files = Seq(file)).directory
    } else Seq(partition.directory)

  private def static: Seq[PlannedPartition] = {
    if (listed.isEmpty) listed = Some(fetch(pushed))
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

  private def fetch(filters: Seq[Expression]): Seq[PlannedPartition] =
    fileFilters.accepted(keep(planned(filters ++ FileColumns.ofKeys(keys, zone, filters)), filters))

  /** What the service gives for filters: at least what they leave. */
  protected def planned(filters: Seq[Expression]): Seq[PlannedPartition] = {
    val predicate = translator.translate(filters)
    val left = filters.filter(filter => PartitionFilter.isOf(keys, filter) && !saysExactly(Seq(filter)))
    val among = new PartitionChoice(client, table, keys, () => values).among(predicate, left)
    PlannedFiles.fetch(client, table, values, predicate, among, limited)
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
   * The partitions that filters on keys leave, together where the keys at the given places are equal.
   *
   * @param wanted one of `PartitionGroups`
   */
  def groups(filters: Seq[Expression], at: Seq[Int], wanted: String): Seq[PartitionGroup] = {
    val left = filters.filter(filter => !saysExactly(Seq(filter)))
    val of = left.flatMap(_.references).map(a => keys.indexWhere(f => spark.sessionState.conf.resolver(f.name, a.name)))
    val names = (at ++ of).distinct.map(table.partitionColumns(_).name)
    val filter = new PartitionFilter(keys, left)
    PartitionGroups.fetch(client, table, values, translator.translate(filters), names, wanted) { group =>
      filter.matches(group.values)
    }
  }

  /** Partitions' names as the rows that a query sees. */
  def values: PartitionValues = new PartitionValues(keys, zone, padded)

  private def keep(partitions: Seq[PlannedPartition], filters: Seq[Expression]): Seq[PlannedPartition] = {
    val (ofFiles, ofKeys) = filters.partition(FileColumns.mentioned(fileColumns, _))
    val filter = new PartitionFilter(keys, ofKeys)
    val kept = partitions.filter(partition => filter.matches(partition.values))
    if (ofFiles.isEmpty) kept else {
      val fileFilter = new PartitionFilter(partitionSchema, ofFiles)
      kept.map(p => p.filtered(file => fileFilter.matches(FileColumns.values(fileColumns, p, file))))
        .filter(_.files.nonEmpty)
    }
  }

  override def partitionSpec(): PartitionSpec = PartitionSpec(partitionSchema, Nil)
  override def rootPaths: Seq[Path] = Seq(new Path(table.location))
  override def sizeInBytes: Long = totals._1
  override def allFiles(): Seq[FileStatus] = synchronized(static.flatMap(_.files))
  override def inputFiles: Array[String] = allFiles().map(_.getPath.toUri.toString).toArray
  override def refresh(): Unit = ()

  // What Spark would find by listing directories; nothing may list here.
  override protected def leafFiles: mutable.LinkedHashMap[Path, FileStatus] = neverListed
  override protected def leafDirToChildrenFiles: ImmutableMap[Path, Array[FileStatus]] = neverListed
  private def neverListed: Nothing = throw new IllegalStateException("files come from the index, not from a listing")

  // Plans are reused where these say that they read the same.
  override def equals(other: Any): Boolean = other match {
    case that: PlannedFileIndex =>
      catalogName == that.catalogName && table == that.table && partitionSchema == that.partitionSchema &&
        zone == that.zone && options == that.options
    case _ => false
  }

  override def hashCode(): Int = (catalogName, table.tableId, table.version).hashCode()

}
