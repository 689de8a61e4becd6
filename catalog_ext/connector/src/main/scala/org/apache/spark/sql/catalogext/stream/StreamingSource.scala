package org.apache.spark.sql.catalogext.stream

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.formats.FileReaders
import org.apache.spark.sql.catalogext.release.Streaming
import org.apache.spark.sql.catalogext.release.Streaming.{HDFSMetadataLog, SerializedOffset}
import org.apache.spark.sql.catalogext.scan.{CatalogExtScan, CatalogExtScanBuilder, ChosenFiles, ChosenFilesBuilder,
  FileColumns, FileFilters, PlannedFileIndex, SharedFiles}
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Reads a table as a stream: first the existing data, and then the files that each version adds, in order.
 *
 * It lives on the driver, on the query's thread. The schema is that of the query's start.
 */
class CatalogExtMicroBatchStream(
    spark: SparkSession,
    client: ServiceClient,
    index: PlannedFileIndex,
    checkpointLocation: String)
  extends MicroBatchStream with SupportsTriggerAvailableNow {

  private val table = index.table
  FileFilters.checkStream(s"${index.catalogName}.${table.qualifiedName}", index.options)
  private val settings = new StreamingReadOptions(ResolvedSettings.of(
    "stream", client, index.catalogName, table, index.options, spark.sessionState.conf))
  private val files = new StreamingFiles(client, table, settings.skipChanges)
  private val scan = wholeRows
  private var lastVersion: Option[Long] = None

  /**
   * A scan of all columns. Spark does not prune columns of a stream, and takes them by position: data columns, visible
   * partition columns, file columns, and `_metadata`. Trailing columns that the query does not use are ignored.
   */
  private def wholeRows: CatalogExtScan = {
    val builder = new CatalogExtScanBuilder(spark, client, index.catalogName, table, index.options, new SharedFiles)
    val resolver = spark.sessionState.conf.resolver
    val constants = PartitionColumns.visible(table, resolver) ++ FileColumns.visible(table, resolver)
    val columns = CharVarcharUtils.replaceCharVarcharWithStringInSchema(StructType(table.columns ++ constants))
    builder.pruneColumns(columns.add(
      StructField(FileFormat.METADATA_NAME, StructType(FileFormat.BASE_METADATA_FIELDS), nullable = false)))
    builder.build().asInstanceOf[CatalogExtScan]
  }

  // The stream's start, read from its checkpoint: after a restart the first batch may be planned again when the table
  // has a later version.
  private lazy val first: StreamingOffset = {
    val log = new HDFSMetadataLog[SerializedOffset](spark, checkpointLocation)
    val offset = log.get(0).map(known => deserializeOffset(known.json)).getOrElse {
      val decided = settings.start match {
        case StreamStart.Snapshot => StreamingOffset(table.tableId, upto, 0, snapshot = true)
        case StreamStart.Latest => StreamingOffset(table.tableId, upto + 1, 0, snapshot = false)
        case StreamStart.From(version) => StreamingOffset(table.tableId, checked(version), 0, snapshot = false)
      }
      log.add(0, Streaming.offset(decided.json()))
      decided
    }
    offset
  }

  override def initialOffset(): Offset = first

  override def deserializeOffset(json: String): StreamingOffset = {
    val offset = StreamingOffset.fromJson(json)
    if (offset.tableId != table.tableId) throw replaced()
    offset
  }

  override def prepareForTriggerAvailableNow(): Unit = lastVersion = Some(currentVersion())

  override def getDefaultReadLimit: ReadLimit = settings.limit

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("Spark calls latestOffset(Offset, ReadLimit) of this source")

  /** The end of the next batch; null if there is nothing new. */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = start.asInstanceOf[StreamingOffset]
    val version = upto
    val available = files.from(from, version)
    val admitted = StreamingReadOptions.admitted(available, limit)
    if (admitted == 0) null
    else if (admitted == available.size) StreamingOffset(table.tableId, version + 1, 0, snapshot = false)
    else available(admitted - 1).nextOffset(table.tableId)
  }

  override def reportLatestOffset(): Offset = StreamingOffset(table.tableId, upto + 1, 0, snapshot = false)

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val to = end.asInstanceOf[StreamingOffset]
    val read = files.from(start.asInstanceOf[StreamingOffset], to.lastVersion).takeWhile(to.isAfter)
    scan.index.partitions(chosen(read), FileReaders.isSplitable(scan.inner), grouped = Nil)
  }

  private def chosen(read: Vector[StreamedFile]): ChosenFiles = {
    val builder = new ChosenFilesBuilder(scan.index.choosing(Nil))
    read.groupBy(file => (file.partition, file.location)).toSeq.sortBy(_._1).foreach { case ((name, location), files) =>
      builder.batch.begin(name, location)
      files.foreach(file => builder.batch.add(file.path, file.size, file.modifiedMs, rows = -1))
      builder.end()
    }
    builder.result()
  }

  override def createReaderFactory(): PartitionReaderFactory = scan.readerFactory

  override def commit(end: Offset): Unit = files.forget(end.asInstanceOf[StreamingOffset])

  override def stop(): Unit = ()

  override def toString: String = s"catalog-ext[${index.catalogName}.${table.qualifiedName}]"

  private def upto: Long = lastVersion.getOrElse(currentVersion())

  private def currentVersion(): Long = {
    val request = obj("namespace" -> text(table.namespace), "name" -> text(table.name))
    val now = TableMetadata.fromJson(ServiceException.translating(client.call("tables/load", request)))
    if (now.tableId != table.tableId) throw replaced()
    now.version
  }

  private def checked(version: Long): Long = {
    val newest = upto
    if (version > newest + 1) throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
      s"The option '${StreamingReadOptions.StartingVersion}' of a stream from ${index.catalogName}." +
        s"${table.qualifiedName} is $version, but the newest version is $newest; give a version up to ${newest + 1}, " +
        "or 'latest'.", Map("version" -> version.toString))
    version
  }

  private def replaced(): Throwable = ConnectorErrors.runtime(ConnectorErrors.StreamChanged,
    s"Table ${index.catalogName}.${table.qualifiedName} is another one than the query's checkpoint knows: it was " +
      "dropped and made again. Start the query with a new checkpoint.",
    Map("table" -> s"${index.catalogName}.${table.qualifiedName}"))
}

/** The position at which a stream without a checkpoint starts. */
sealed trait StreamStart

object StreamStart {
  /** All existing files, and then added files. */
  case object Snapshot extends StreamStart
  /** Only files that are added after the stream's start. */
  case object Latest extends StreamStart
  /** The files that this version and later ones added. */
  case class From(version: Long) extends StreamStart
}

/** The options of a streaming read, resolved by the service. */
class StreamingReadOptions(settings: ResolvedSettings) {
  import StreamingReadOptions._

  val start: StreamStart = settings.text(StartingVersion) match {
    case None => StreamStart.Snapshot
    case Some("latest") => StreamStart.Latest
    case Some(version) => StreamStart.From(version.toLong)
  }

  val skipChanges: Boolean = settings.flag(StreamingFiles.SkipChangeCommits)

  val limit: ReadLimit = {
    val limits = Seq(
      settings.long(MaxFiles).map(files => ReadLimit.maxFiles(files.min(Int.MaxValue.toLong).toInt)),
      settings.long(MaxBytes).map(bytes => ReadLimit.maxBytes(bytes))).flatten
    limits match {
      case Seq() => ReadLimit.allAvailable()
      case Seq(one) => one
      case several => ReadLimit.compositeLimit(several.toArray)
    }
  }
}

object StreamingReadOptions {
  val StartingVersion = "startingVersion"
  val MaxFiles = "maxFilesPerTrigger"
  val MaxBytes = "maxBytesPerTrigger"

  /** The number of files in a batch with this limit; at least one, so that a large file does not block the stream. */
  def admitted(files: Vector[StreamedFile], limit: ReadLimit): Int = limit match {
    case count: ReadMaxFiles => math.min(files.size, count.maxFiles())
    case bytes: ReadMaxBytes =>
      val sums = files.iterator.scanLeft(0L)(_ + _.size).drop(1)
      math.max(sums.takeWhile(_ <= bytes.maxBytes()).size, math.min(files.size, 1))
    case several: CompositeReadLimit => several.getReadLimits.map(admitted(files, _)).min
    case _ => files.size
  }
}
