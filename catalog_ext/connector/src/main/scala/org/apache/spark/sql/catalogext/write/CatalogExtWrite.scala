package org.apache.spark.sql.catalogext.write

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.lang.management.ManagementFactory
import java.net.{InetAddress, UnknownHostException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.security.MessageDigest
import java.util.HexFormat
import java.util.zip.{GZIPInputStream, GZIPOutputStream}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.WriteMetrics
import org.apache.spark.sql.catalogext.commands.{PartitionClauses, PartitionDeletion}
import org.apache.spark.sql.catalogext.service.Json
import org.apache.spark.sql.catalogext.stream.CatalogExtStreamingWrite
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expression, Expressions, FieldReference, SortDirection, SortOrder}
import org.apache.spark.sql.connector.expressions.filter.{Predicate => V2Predicate}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.StreamingWrite
import org.apache.spark.sql.execution.datasources.WriteTaskResult

/**
 * Builds a write to an existing table or, if the target has a definition, to a table that the write creates.
 *
 * No transaction begins before the job starts, because EXPLAIN builds writes too.
 */
class CatalogExtWriteBuilder(spark: SparkSession, target: WriteTarget, info: LogicalWriteInfo)
  extends WriteBuilder with SupportsOverwriteV2 with SupportsDynamicOverwrite {

  private val settings =
    new WriteSettings(target.client, target.catalogName, target.metadata, info.options(), spark.sessionState.conf)
  private var chosen = target

  // Raise the error here, and not by canOverwrite: Spark's own error names no alternative.
  override def overwrite(predicates: Array[V2Predicate]): WriteBuilder =
    changeTo(SparkWriteKind.Overwrite, ofClause.orElse(exact(predicates)).getOrElse(
      throw PartitionDeletion.notReplaceable(target.metadata, predicates.mkString(" AND "))))

  override def truncate(): WriteBuilder = changeTo(SparkWriteKind.Overwrite, None)

  override def overwriteDynamicPartitions(): WriteBuilder =
    // An unpartitioned table is a single partition.
    if (target.metadata.partitionColumns.isEmpty) truncate() else changeTo(SparkWriteKind.OverwritePartitions, None)

  /**
   * The write with another kind and predicate. A table that the write creates has nothing to overwrite, so its kind
   * stays.
   */
  private def changeTo(kind: SparkWriteKind, predicate: Option[JsonNode]): WriteBuilder = {
    if (!target.creates) chosen = target.copy(kind = kind, predicate = predicate)
    this
  }

  /**
   * The condition of a static PARTITION clause, by the names that the rows' partitions get. It is exact for every value,
   * which Spark's condition on the typed values is not: a TIMESTAMP of a repeated hour has two local times.
   */
  private def ofClause: Option[Option[JsonNode]] =
    Option.when(target.clauses.nonEmpty)(Some(PartitionClauses.condition(target.clauses)))

  private def exact(predicates: Array[V2Predicate]): Option[Option[JsonNode]] =
    WritePredicate.exact(target.metadata, predicates.toSeq, settings.zone)

  override def build(): Write = new CatalogExtWrite(spark, chosen, settings, info)
}

/** A planned write: the order that it requires of its rows, and the batch that executes it. */
class CatalogExtWrite(
    spark: SparkSession,
    val target: WriteTarget,
    val settings: WriteSettings,
    info: LogicalWriteInfo)
  extends Write with RequiresDistributionAndOrdering {

  // Build the plan when the statement is planned, so that an invalid setting or type stops it before any task runs.
  private val plan = new SparkWritePlan(spark, target, settings, info.schema())

  /** A copy of the write for a statement that read the table at `version`. */
  def at(version: BaseVersion): CatalogExtWrite =
    new CatalogExtWrite(spark, target.copy(base = Some(version)), settings, info)

  @volatile private[catalogext] var metrics: Array[CustomTaskMetric] = Array.empty

  override def description(): String = s"${target.tableName} (${target.kind.name})"
  override def toString: String = description()

  override def requiredDistribution(): Distribution =
    if (plan.clustered) Distributions.clustered(keys.toArray)
    else Distributions.unspecified()

  // Not strict: Spark may split a large partition over several tasks, each of which writes its own files.
  override def distributionStrictlyRequired(): Boolean = false

  override def requiredOrdering(): Array[SortOrder] =
    if (plan.grouped) keys.map(Expressions.sort(_, SortDirection.ASCENDING)).toArray else Array.empty

  // Pass a column name as a single part, even if it contains dots.
  private def keys: Seq[Expression] = plan.keyNames.map(name => FieldReference(Seq(name)))

  override def toBatch: BatchWrite = new CatalogExtBatchWrite(this, start)

  override def toStreaming: StreamingWrite = new CatalogExtStreamingWrite(spark, target, settings, info)

  /** Begins the transaction of a job; None if the batch is already committed. */
  def start(application: Option[ApplicationBatch]): Option[RunningWrite] =
    WriteTransaction.begin(target, settings, CatalogExtWrite.owner(spark), application)
      .map(new RunningWrite(target, settings, plan, _, TaskFailures.of(spark.sparkContext)))

  override def supportedCustomMetrics(): Array[CustomMetric] = WriteMetrics.supported
  override def reportDriverMetrics(): Array[CustomTaskMetric] = metrics
}

object CatalogExtWrite {
  private lazy val process = s"$host:${ManagementFactory.getRuntimeMXBean.getPid}"

  /** The name of this host. As `this_host` in Python it distinguishes containers that have the same host name. */
  private def host: String = {
    val name = hostName(() => InetAddress.getLocalHost)
    try {
      val boot = Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).trim
      val numbers = Files.readSymbolicLink(Path.of("/proc/self/ns/pid"))
      s"$name#${machine(boot, numbers.toString)}"
    } catch {
      case _: IOException => name
    }
  }

  /** As `machine_id` in Python, of the kernel's boot id and the PID namespace. */
  private[catalogext] def machine(boot: String, numbers: String): String =
    HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(s"$boot $numbers".getBytes(UTF_8)), 0, 4)

  // The host name may not be resolvable. The system's own name is then used.
  private[catalogext] def hostName(local: () => InetAddress): String = try local().getHostName catch {
    case _: UnknownHostException =>
      try Files.readString(Path.of("/proc/sys/kernel/hostname")).trim catch { case _: IOException => "localhost" }
  }

  /** The owner of a transaction, for people who look at running writes. */
  def owner(spark: SparkSession): String = s"${spark.sparkContext.applicationId}@$process"
}

/** A transaction in progress, and the tasks that write for it. */
class RunningWrite(
    target: WriteTarget,
    settings: WriteSettings,
    plan: SparkWritePlan,
    val transaction: WriteTransaction,
    failures: TaskFailures)
  extends Logging {

  /**
   * Creates the tasks' writers. A failure here aborts the transaction at once, because Spark aborts a batch only after
   * it has the factory.
   */
  def writerFactory: DataWriterFactory =
    try new StagingWriterFactory(plan.job(transaction.stagingLocations, failures)) catch {
      case e: Throwable =>
        abort("no task could be started")
        throw e
    }

  /** Commits the staged files of the tasks, and logs one line. */
  def commit(
      messages: Seq[WriterCommitMessage],
      watermarkMillis: Option[Long] = None,
      last: Boolean = false): WriteOutcome = {
    checkPartitions(messages)
    transaction.stage(StagedFiles.read(messages))
    val outcome = transaction.commit(watermarkMillis, last)
    logInfo(s"${target.operation.getOrElse(target.kind.operation)} of ${target.tableName} made version " +
      s"${outcome.version}: ${outcome.partitions} partitions, ${outcome.files} files, ${outcome.rows} rows, " +
      s"${outcome.bytes} bytes, ${outcome.filesRemoved} files replaced, committed in ${outcome.commitMillis} ms, " +
      s"${outcome.pendingDeliveries} deliveries pending, transaction ${transaction.id}")
    outcome
  }

  /** Aborts the transaction. The index stores `reason` with it, followed by the error of the last failed task. */
  def abort(reason: String): Unit = transaction.abort(failures.last.fold(reason)(why => s"$reason: $why"))

  private def checkPartitions(messages: Seq[WriterCommitMessage]): Unit = if (!target.onePartition) {
    settings.maxPartitions.foreach { limit =>
      val count = StagedFiles.read(messages).map(_.get("partition").asText()).toSet.size
      if (count > limit) throw WriteErrors.tooManyPartitions(
        target.tableName, WriteSettings.MaxDynamicPartitions, limit, count, "the write")
    }
  }
}

/**
 * The batch of one execution. The transaction begins when Spark asks for the writer factory, at the start of the job.
 */
class CatalogExtBatchWrite(
    write: CatalogExtWrite,
    start: Option[ApplicationBatch] => Option[RunningWrite])
  extends BatchWrite with Logging {

  private var running: Option[RunningWrite] = None

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    running = start(write.settings.application)
    running.fold[DataWriterFactory](new DiscardingWriterFactory)(_.writerFactory)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = running match {
    case Some(job) => write.metrics = job.commit(messages.toSeq).metrics
    case None =>
      write.metrics = WriteOutcome.metricsOfDuplicate
      val batch = write.settings.application.get
      logInfo(s"Batch ${batch.version} of application '${batch.id}' is committed to ${write.target.tableName} " +
        "already (or a higher one is): nothing was written")
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = running.foreach(_.abort("the job failed"))
}

/**
 * The form in which staged files are sent to the driver: JDK and Spark types only, so any class loader can read them.
 * The driver keeps the files of all tasks, so they stay compressed until they are read, one file at a time.
 */
object StagedFiles {
  def message(files: JsonNode): WriterCommitMessage = {
    val packed = new ByteArrayOutputStream
    val compressed = new GZIPOutputStream(packed)
    try Json.mapper.writeValue(compressed, files) finally compressed.close()
    WriteTaskResult(
      new org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage(packed.toByteArray),
      org.apache.spark.sql.execution.datasources.ExecutedWriteSummary(Set.empty, Nil))
  }

  /** The files of all messages, each parsed on demand. A lost task has no message. */
  def read(messages: Seq[WriterCommitMessage]): Iterator[JsonNode] =
    messages.iterator.filter(_ != null).flatMap { message =>
      val packed = message.asInstanceOf[WriteTaskResult].commitMsg.obj.asInstanceOf[Array[Byte]]
      val input = new GZIPInputStream(new ByteArrayInputStream(packed))
      // Reads the elements of an array one by one.
      Json.mapper.readerFor(classOf[JsonNode]).readValues[JsonNode](input).asScala
    }
}
