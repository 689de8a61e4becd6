package org.apache.spark.sql.catalogext.service

import java.net.ConnectException
import java.net.http.HttpConnectTimeoutException

import scala.jdk.CollectionConverters._

import org.apache.spark.{QueryContext, SparkRuntimeException}
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.release.OwnAnalysisException
import org.apache.spark.sql.catalyst.trees.Origin

/**
 * An error condition with its SQLSTATE. JDBC clients branch on the SQLSTATE, and spark-sql prints a Java stack trace
 * for an error without one.
 */
case class Condition(code: String, sqlState: String)

/**
 * An analysis error with a condition that Spark's own list does not have.
 *
 * It has a position but no query context. For an error with a query context, PySpark looks up the condition in Spark's
 * list for its log, does not find it, and raises that failure instead.
 */
class CatalogExtAnalysisException(
    condition: Condition,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable],
    at: Origin = Origin())
  extends OwnAnalysisException(
    s"[${condition.code}] $text", condition.code, condition.sqlState, parameters, cause, at) {

  override def withPosition(origin: Origin): AnalysisException = {
    val placed = new CatalogExtAnalysisException(condition, text, parameters, cause, origin)
    placed.setStackTrace(getStackTrace)
    placed
  }
}

/** A runtime error with a condition of this connector. */
class CatalogExtRuntimeException(
    condition: Condition,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable])
  // The base class looks its condition up in Spark's own list, so pass INTERNAL_ERROR, which is in the list.
  extends SparkRuntimeException(
    "INTERNAL_ERROR", Map("message" -> text), cause.orNull, Array.empty[QueryContext], "") {

  override def getMessage: String = s"[${condition.code}] $text"
  override def getCondition: String = condition.code
  override def getErrorClass: String = condition.code
  override def getSqlState: String = condition.sqlState
  override def getMessageParameters: java.util.Map[String, String] = parameters.asJava
}

/**
 * Creates the exceptions of this connector.
 *
 * PySpark converts AnalysisException and SparkRuntimeException to its own classes, but a plain SparkException arrives
 * as Py4JJavaError. So every error outside analysis is a SparkRuntimeException.
 */
object ConnectorErrors {
  private def own(name: String, sqlState: String): Condition = Condition(s"CATALOG_EXT_$name", sqlState)

  /**
   * The connector cannot reach the service, or it does not answer in time.
   * Remedy: Start `catalog-ext serve`, or look at the catalog's options `uri` and `request-timeout`.
   */
  val ServiceUnavailable: Condition = own("SERVICE_UNAVAILABLE", "08001")
  /**
   * The service answered what the connector does not understand: they are of different releases.
   * Remedy: Install one release on both sides.
   */
  val ServiceAnswer: Condition = own("SERVICE_ANSWER", "08000")
  /**
   * Spark has the statement, and tables of catalog-ext do not.
   * Remedy: The message says what to do instead.
   */
  val NotSupported: Condition = own("NOT_SUPPORTED", "0A000")
  /**
   * The installed Spark lacks what the statement needs.
   * Remedy: Use a Spark of the release that the message names, or newer.
   */
  val NewerSparkNeeded: Condition = own("NEWER_SPARK_NEEDED", "0A000")
  val InvalidConfiguration: Condition = own("INVALID_CONFIGURATION", "22023")
  val InvalidValue: Condition = own("INVALID_VALUE", "22023")
  val EnvironmentSetup: Condition = own("ENVIRONMENT_SETUP", "58000")
  /**
   * A registered file is no longer on the store.
   * Remedy: Run the statement again: an overwrite that committed after it was planned deletes the files that it
   * replaced. If the error stays, repair the table with the mode sync, or set `missing-files` to skip to read on.
   */
  val FileMissing: Condition = own("FILE_MISSING", "58000")
  val FilesLost: Condition = own("FILES_LOST", "58000")
  /**
   * A file is there, and cannot be read as its table's format.
   * Remedy: Put a whole file in its place or delete it, and repair the table with the mode sync; or read on with
   * `spark.sql.files.ignoreCorruptFiles`.
   */
  val FileUnreadable: Condition = own("FILE_UNREADABLE", "58030")
  /**
   * An ad-hoc path is read; nothing writes to it.
   * Remedy: Register a table at the path, or create one, and write to that.
   */
  val ReadOnlyPath: Condition = own("READ_ONLY_PATH", "42000")
  /**
   * A table function has arguments that it does not take.
   * Remedy: Give the arguments that the message names.
   */
  val InvalidArguments: Condition = own("INVALID_ARGUMENTS", "22023")
  /**
   * A stream's table changed in a way that its checkpoint cannot follow.
   * Remedy: Start the query with a new checkpoint, or set the option that the message names.
   */
  val StreamChanged: Condition = own("STREAM_CHANGED", "58000")
  val VersionNotFound: Condition = own("VERSION_NOT_FOUND", "42704")
  /**
   * A write has more partitions than a limit allows; nothing was written.
   * Remedy: Raise the limit that the message names, or write fewer partitions at a time.
   */
  val TooManyPartitions: Condition = own("TOO_MANY_PARTITIONS", "54000")

  /**
   * A table has no metadata table of this name.
   * Remedy: The message lists those there are.
   */
  val MetadataTableNotFound: Condition = own("METADATA_TABLE_NOT_FOUND", "42704")
  /**
   * Strict mode refuses to read a partitioned table without a predicate on one of its partition columns.
   * Remedy: Add such a predicate, or set `hive.strict.checks.no.partition.filter` to false.
   */
  val PartitionPredicateRequired: Condition = own("PARTITION_PREDICATE_REQUIRED", "42000")
  /**
   * A statement does with a view's partitions what only those of tables can take: TOUCH, ARCHIVE, RENAME, SET LOCATION.
   * Remedy: Add and drop partitions of a view; they have no files.
   */
  val ViewPartitionCommand: Condition = own("VIEW_PARTITION_COMMAND", "42000")

  /**
   * A statement names a column that the table does not have.
   * Remedy: Name one of those that the message lists.
   */
  val ColumnNotFound: Condition = own("COLUMN_NOT_FOUND", "42703")

  // Conditions of the service that the connector can detect first.
  val CommitStateUnknown: Condition = own("COMMIT_STATE_UNKNOWN", "08007")
  val InvalidIdentifier: Condition = own("INVALID_IDENTIFIER", "22023")
  val InvalidInput: Condition = own("INVALID_INPUT", "22023")
  val LocationNotFound: Condition = own("LOCATION_NOT_FOUND", "42704")
  val MetastoreUnavailable: Condition = own("METASTORE_UNAVAILABLE", "08001")
  val PathNotFound: Condition = own("PATH_NOT_FOUND", "42704")
  val ProcedureNotFound: Condition = own("PROCEDURE_NOT_FOUND", "42704")
  val StorageAccessDenied: Condition = own("STORAGE_ACCESS_DENIED", "42501")
  val StorageUnavailable: Condition = own("STORAGE_UNAVAILABLE", "08001")
  val Unauthorized: Condition = own("UNAUTHORIZED", "28000")
  val UnsupportedFormat: Condition = own("UNSUPPORTED_FORMAT", "42000")

  def analysis(
      condition: Condition,
      text: String,
      parameters: Map[String, String] = Map.empty,
      cause: Option[Throwable] = None): AnalysisException =
    new CatalogExtAnalysisException(condition, text, parameters, cause)

  def runtime(
      condition: Condition,
      text: String,
      parameters: Map[String, String] = Map.empty,
      cause: Option[Throwable] = None): SparkRuntimeException =
    new CatalogExtRuntimeException(condition, text, parameters, cause)

  /** The error for an operation that Spark offers and this release does not support, with an alternative. */
  def notSupported(text: String): AnalysisException = analysis(NotSupported, text)

  /** The error that names the Spark release with a feature that the installed one lacks. */
  def needsSpark(what: String, release: String): AnalysisException = analysis(
    NewerSparkNeeded, s"Spark ${org.apache.spark.SPARK_VERSION} has no $what; Spark $release has. Use that release or a newer one.",
    Map("spark" -> org.apache.spark.SPARK_VERSION, "needed" -> release))
}

/** An error answer of the service. `analysis` is true if the statement itself is wrong. */
class ServiceException(
    val condition: Condition,
    analysis: Boolean,
    val text: String,
    val parameters: Map[String, String],
    val retryable: Boolean)
  extends RuntimeException(s"[${condition.code}] $text") {

  def is(name: String): Boolean = condition.code == s"CATALOG_EXT_$name"

  def is(other: Condition): Boolean = condition.code == other.code

  /** The exception for the user, if Spark's interface requires no particular one. */
  def toSpark: Throwable =
    if (analysis) ConnectorErrors.analysis(condition, text, parameters, Some(this))
    else ConnectorErrors.runtime(condition, text, parameters, Some(this))
}

/** Says of a failed request whether the service may have executed it. */
object RequestOutcome {
  private val Unanswered = Set(ConnectorErrors.ServiceUnavailable.code, ConnectorErrors.ServiceAnswer.code)

  /** Whether the request was never sent, because no connection could be opened. */
  def isUnsent(e: Throwable): Boolean = e.getCause match {
    case _: ConnectException | _: HttpConnectTimeoutException => true
    case _ => false
  }

  /** Whether the service gave no answer: the connection failed, or a proxy answered in the service's place. */
  def isUnanswered(e: CatalogExtRuntimeException): Boolean = Unanswered.contains(e.getCondition)

  /**
   * Whether the service may have executed the request, or may still be executing it. The caller must then keep
   * everything that the service needs for it. True also for an interrupt, which ends the wait for the answer only.
   */
  def isUnknown(e: Throwable): Boolean = e match {
    case answer: ServiceException => answer.is(ConnectorErrors.CommitStateUnknown)
    case failure: CatalogExtRuntimeException => isUnanswered(failure) && !isUnsent(failure)
    case _: AnalysisException => false
    case _ => true
  }
}

object ServiceException {
  /** Runs `body`. A service error is converted by `translate`, or else to an exception that PySpark understands. */
  def translatingTo[T](translate: PartialFunction[ServiceException, Throwable])(body: => T): T =
    try body catch {
      case e: ServiceException => throw translate.applyOrElse(e, (other: ServiceException) => other.toSpark)
    }

  /** Runs `body`. A service error is converted to an exception that PySpark understands. */
  def translating[T](body: => T): T = translatingTo(PartialFunction.empty)(body)
}
