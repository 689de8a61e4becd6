package org.apache.spark.sql.catalogext.write

import java.util.UUID
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.SparkEnv
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.DriverMetric
import org.apache.spark.sql.catalogext.commands.PartitionClauses
import org.apache.spark.sql.catalogext.service.{CatalogExtRuntimeException, ConnectorErrors, RequestOutcome,
  ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.connector.metric.CustomTaskMetric

/**
 * The directories for the files of a transaction's tasks, from the service (`docs/spec/service.md`, Writes).
 *
 * @param directory the parent of the partitions' directories
 * @param own the directories of partitions whose files go elsewhere; None if all partitions are below `directory`.
 *            There may be many, so an executor receives them once, and not with every task
 * @param asks whether a task must ask the driver for each partition's directory, because there are too many for one
 *             plan
 */
case class StagingLocations(
    transaction: String,
    location: String,
    directory: String,
    own: Option[Broadcast[Map[String, String]]],
    asks: Boolean,
    upload: Boolean) {

  /**
   * The directory in which a task writes the partition's files; for uploads, their final directory. It may ask the
   * driver and wait for the answer.
   */
  def directoryOf(partition: String): String = {
    val elsewhere =
      if (asks && partition.nonEmpty) AskedLocations.of(transaction, partition) else own.flatMap(_.value.get(partition))
    elsewhere.getOrElse(if (partition.isEmpty) directory else s"$directory/$partition")
  }

  /** Removes the data of `own` from the executors, where the garbage collector would leave it for long. */
  def release(): Unit = own.foreach(_.destroy(blocking = false))
}

/** The answer of `writes/commit`. */
case class WriteOutcome(
    version: Long,
    partitions: Long,
    files: Long,
    filesRemoved: Long,
    rows: Long,
    bytes: Long,
    waiting: Long,
    duplicate: Boolean,
    pendingDeliveries: Long,
    commitMillis: Long) {

  def metrics: Array[CustomTaskMetric] = Array(
    DriverMetric("numWrittenFiles", files),
    DriverMetric("numWrittenPartitions", partitions),
    DriverMetric("numWrittenRows", rows),
    DriverMetric("numWrittenBytes", bytes),
    DriverMetric("numReplacedFiles", filesRemoved),
    DriverMetric("commitTime", commitMillis),
    DriverMetric("duplicateBatches", if (duplicate) 1 else 0))
}

object WriteOutcome {
  /** The metrics of a batch that was already committed, so that nothing was written. */
  val metricsOfDuplicate: Array[CustomTaskMetric] = Array(DriverMetric("duplicateBatches", 1))

  def fromJson(node: JsonNode): WriteOutcome = WriteOutcome(
    version = node.field("version").asLong(),
    partitions = Seq("partitions_added", "partitions_changed").map(node.field(_).asLong()).sum,
    files = node.field("files_added").asLong(),
    filesRemoved = node.field("files_removed").asLong(),
    rows = node.field("rows").asLong(),
    bytes = node.field("bytes").asLong(),
    waiting = node.field("waiting").asLong(),
    duplicate = node.field("duplicate").asBoolean(),
    pendingDeliveries = node.field("pending_deliveries").asLong(),
    commitMillis = node.field("commit_ms").asLong())
}

/**
 * A transaction on the driver. Heartbeats keep it alive until it is committed or aborted.
 *
 * `commit` and `abort` end it. After `commit` was sent, `abort` does nothing, because the service finishes or undoes
 * what it has begun.
 */
class WriteTransaction private (target: WriteTarget, val stagingLocations: StagingLocations, leaseMillis: Long)
  extends Logging {
  import WriteTransaction._

  private val client = target.client
  private val heartbeats: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor { task =>
    val thread = new Thread(task, s"catalog-ext-heartbeat-${stagingLocations.transaction}")
    thread.setDaemon(true)
    thread
  }
  // The number of staged files. It is sent with each request, so that the service detects repeated requests, and files
  // that its database lost in a restart.
  @volatile private var staged = 0L
  /** The last staged files, which are sent with the commit, so that a write of few files takes one request. */
  @volatile private var last: Seq[JsonNode] = Nil
  private val answers = Option.when(stagingLocations.asks)(AskedLocations.serve(client, stagingLocations.transaction))
  @volatile private var commitSent = false
  @volatile private var ended = false

  private val period = math.max(leaseMillis / 3, 1)
  heartbeats.scheduleWithFixedDelay(() => beat(), period, period, TimeUnit.MILLISECONDS)

  def id: String = stagingLocations.transaction

  private def beat(): Unit =
    try client.call("writes/heartbeat", obj("transaction" -> text(id))) catch {
      // Continue the job after a failed heartbeat: the commit still succeeds unless another process has recovered the
      // transaction meanwhile.
      case NonFatal(e) => logWarning(s"The heartbeat of transaction $id (table ${target.tableName}) failed", e)
    }

  /** Records staged files in as many requests as needed, except for the last ones, which are sent with the commit. */
  def stage(files: Iterator[JsonNode]): Unit = ServiceException.translating {
    chunks(files).foreach { chunk =>
      if (last.nonEmpty) {
        client.call("writes/stage", obj("transaction" -> text(id), "files" -> arr(last), "staged" -> long(staged)))
        staged += last.size
      }
      last = chunk
    }
  }

  /**
   * Commits the staged files.
   *
   * If the answer is lost or the outcome is still unknown, the request is repeated: `staged` identifies its files, so
   * it commits only once. Any other error of the service is final. If the service was never reached, nothing is
   * committed, and the write fails and is aborted.
   */
  def commit(watermarkMillis: Option[Long] = None, ends: Boolean = false): WriteOutcome = {
    val request = obj(
      "transaction" -> text(id), "files" -> arr(last), "staged" -> long(staged), "keep" -> text(target.keep),
      "watermark_ms" -> watermarkMillis.fold(Null)(long), "final" -> bool(ends), "again" -> bool(false))
    commitSent = true
    try ServiceException.translating(WriteOutcome.fromJson(answer(request, Pauses, first = true))) catch {
      case e: UnsentException =>
        commitSent = false
        throw e.getCause
    } finally if (commitSent) end()
  }

  @tailrec private def answer(request: ObjectNode, pauses: Seq[Long], first: Boolean): JsonNode = {
    val attempt =
      try Right(client.call("writes/commit", request, limited = false, patient = first)) catch {
        case e: CatalogExtRuntimeException if first && RequestOutcome.isUnsent(e) => throw new UnsentException(e)
        case e: ServiceException if e.is(ConnectorErrors.CommitStateUnknown) && !isSettled(e) => Left(e)
        case e: CatalogExtRuntimeException if RequestOutcome.isUnanswered(e) => Left(e)
      }
    (attempt, pauses) match {
      case (Right(node), _) => node
      case (Left(e: ServiceException), Seq()) => throw e
      // Do not retry if a proxy between driver and service has answered: it would refuse every retry.
      case (Left(e), pauses) if pauses.isEmpty || isForeign(e) => throw unknown(e)
      case (Left(e), pause +: later) =>
        logWarning(s"The outcome of transaction $id (table ${target.tableName}) is not known; asking again", e)
        Thread.sleep(pause)
        answer(request.put("again", true), later, first = false)
    }
  }

  private def isForeign(e: Throwable): Boolean = e match {
    case runtime: CatalogExtRuntimeException => runtime.getCondition == ConnectorErrors.ServiceAnswer.code
    case _ => false
  }

  private def unknown(cause: Throwable): Throwable = ConnectorErrors.runtime(ConnectorErrors.CommitStateUnknown,
    s"Whether transaction $id committed to table ${target.tableName} is not known: ${cause.getMessage} Nothing was " +
      s"deleted. When the service answers, CALL ${target.catalogName}.system.recover(table => " +
      s"'${target.metadata.qualifiedName}') finishes or undoes it and says which.",
    Map("transaction" -> id, "table" -> target.tableName), Some(cause))

  /** Whether the service has said that a retry is useless until the cause is removed. */
  private def isSettled(e: ServiceException): Boolean = e.parameters.get(AskAgain).contains("false")

  /** Aborts the transaction. What cannot be undone now is undone by `recover`, after the lease has ended. */
  def abort(reason: String): Unit = if (!commitSent && !ended) {
    end()
    try client.call("writes/abort", obj("transaction" -> text(id), "reason" -> text(reason)), limited = false,
      patient = false) catch {
      case NonFatal(e) => logWarning(s"Transaction $id (table ${target.tableName}) was not aborted; " +
        "the next write of the table, or recover, does it once its lease is over", e)
    }
  }

  private def end(): Unit = if (!ended) {
    ended = true
    heartbeats.shutdownNow()
    // SparkEnv and its RPC environment are null if Spark was stopped meanwhile.
    for (answer <- answers; env <- Option(SparkEnv.get); rpc <- Option(env.rpcEnv)) rpc.stop(answer)
    try stagingLocations.release() catch {
      case NonFatal(e) => logWarning(s"What the tasks of transaction $id had was not taken from the executors", e)
    }
  }
}

/** Raised if the commit was not sent, because no connection could be opened. */
private class UnsentException(cause: Throwable) extends RuntimeException(cause)

object WriteTransaction {
  private val AskAgain = "ask_again"
  private val Pauses = Seq(1000L, 2000L, 5000L, 10000L, 20000L, 30000L)
  private val MostFiles = 1000
  // The maximum number of characters of files in one request. Statistics of wide tables are long; the service accepts
  // 64 MB.
  private val MostCharacters = 8 << 20

  /** Begins a transaction; None if the batch is already committed and nothing is to be written. */
  def begin(
      target: WriteTarget,
      settings: WriteSettings,
      owner: String,
      application: Option[ApplicationBatch]): Option[WriteTransaction] = {
    val analysed = Option.unless(target.creates)(BaseVersion(target.metadata.tableId, target.metadata.version))
    val base = target.base.orElse(analysed)
    val request = obj(
      "transaction" -> text(UUID.randomUUID().toString.replace("-", "")),
      "table_id" -> base.fold(Null)(from => long(from.tableId)),
      "version" -> base.fold(Null)(from => long(from.version)),
      "kind" -> text(target.kind.name),
      "operation" -> text(target.operation.getOrElse(target.kind.operation)),
      "owner" -> text(owner),
      "predicate" -> target.predicate.getOrElse(Null),
      "clauses" -> PartitionClauses.json(target.clauses),
      // The clauses have local times of the writer's zone, as the rows' partitions.
      "clause_session" -> PartitionClauses.session.put("zone", settings.zone),
      "app_id" -> text(application.map(_.id)),
      "app_version" -> application.fold(Null)(batch => long(batch.version)),
      "definition" -> target.definition.getOrElse(Null),
      // The format and options with which the tasks' writers were planned, so that the service notices an alteration
      // since.
      "planned" -> (if (target.creates) Null
        else obj("format" -> text(target.metadata.format), "options" -> map(target.metadata.options))))
    settings.forService.foreach { case (name, value) => request.set[JsonNode](name, value) }
    val answer = ServiceException.translating(target.client.call("writes/begin", request, limited = false))
    if (answer.field("duplicate").asBoolean()) None
    else Some(new WriteTransaction(target, stagingLocationsOf(answer), answer.field("lease_ms").asLong()))
  }

  private def stagingLocationsOf(answer: JsonNode): StagingLocations = StagingLocations(
    transaction = answer.string("transaction"),
    location = answer.string("location"),
    directory = answer.string("directory"),
    own = Option.unless(asks(answer))(answer.stringMap("partition_directories")).filter(_.nonEmpty)
      .map(own => SparkSession.active.sparkContext.broadcast(own)),
    asks = asks(answer),
    upload = answer.string("promotion") match {
      case "upload" => true
      case "rename" => false
      case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
        s"The service wants files promoted by '$other', which this connector does not know: they are of different releases.")
    })

  private def asks(answer: JsonNode): Boolean = answer.field("partition_directories").isNull

  private def chunks(files: Iterator[JsonNode]): Iterator[Seq[JsonNode]] = new Iterator[Seq[JsonNode]] {
    private val source = files.buffered
    override def hasNext: Boolean = source.hasNext
    override def next(): Seq[JsonNode] = {
      val chunk = Seq.newBuilder[JsonNode]
      var count = 0
      var characters = 0L
      while (source.hasNext && count < MostFiles && characters < MostCharacters) {
        val file = source.next()
        chunk += file
        count += 1
        characters += file.toString.length
      }
      chunk.result()
    }
  }
}
