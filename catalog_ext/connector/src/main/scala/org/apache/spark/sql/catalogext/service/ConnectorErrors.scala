package org.apache.spark.sql.catalogext.service

import scala.jdk.CollectionConverters._

import org.apache.spark.{QueryContext, SparkRuntimeException}
import org.apache.spark.sql.AnalysisException

/** An analysis error with a condition of ours, which Spark's own list of conditions does not have. */
class CatalogExtAnalysisException(
    code: String,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable])
  extends AnalysisException(
    message = s"[$code] $text",
    line = None,
    startPosition = None,
    cause = cause,
    errorClass = Some(code),
    messageParameters = parameters,
    context = Array.empty[QueryContext],
    sqlState = Some(SqlStates.of(code, analysis = true)),
    messageTemplate = None)

/** An error while running, with a condition of ours. */
class CatalogExtRuntimeException(
    code: String,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable])
  // Spark looks the condition up in its own list, so the base class gets one that is there.
  extends SparkRuntimeException(
    "INTERNAL_ERROR", Map("message" -> text), cause.orNull, Array.empty[QueryContext], None: Option[String]) {

  override def getMessage: String = s"[$code] $text"
  override def getCondition: String = code
  override def getErrorClass: String = code
  override def getSqlState: String = SqlStates.of(code, analysis = false)
  override def getMessageParameters: java.util.Map[String, String] = parameters.asJava
}

/**
 * Makes the exceptions that this connector raises.
 *
 * PySpark turns AnalysisException and SparkRuntimeException into its own classes, but lets a plain SparkException
 * arrive as Py4JJavaError; so every error that is not one of analysis is a SparkRuntimeException.
 */
object ConnectorErrors {
  val Prefix = "CATALOG_EXT"
  /**
   * The connector cannot reach the service, or it does not answer in time.
   * Remedy: Start `catalog-ext serve`, or look at the catalog's options `uri` and `request-timeout`.
   */
  val ServiceUnavailable: String = s"${Prefix}_SERVICE_UNAVAILABLE"
  /**
   * The service answered what the connector does not understand: they are of different releases.
   * Remedy: Install one release on both sides.
   */
  val ServiceAnswer: String = s"${Prefix}_SERVICE_ANSWER"
  /**
   * Spark has the statement, and tables of catalog-ext do not.
   * Remedy: The message says what to do instead.
   */
  val NotSupported: String = s"${Prefix}_NOT_SUPPORTED"
  val InvalidConfiguration: String = s"${Prefix}_INVALID_CONFIGURATION"
  val InvalidValue: String = s"${Prefix}_INVALID_VALUE"
  val EnvironmentSetup: String = s"${Prefix}_ENVIRONMENT_SETUP"
  /**
   * A registered file is no longer on the store.
   * Remedy: Repair the table with the mode sync, or set `missing-files` to skip to read on.
   */
  val FileMissing: String = s"${Prefix}_FILE_MISSING"
  /**
   * An ad-hoc path is read; nothing writes to it.
   * Remedy: Register a table at the path, or create one, and write to that.
   */
  val ReadOnlyPath: String = s"${Prefix}_READ_ONLY_PATH"
  /**
   * A table function has arguments that it does not take.
   * Remedy: Give the arguments that the message names.
   */
  val InvalidArguments: String = s"${Prefix}_INVALID_ARGUMENTS"
  /**
   * A stream's table changed in a way that its checkpoint cannot follow.
   * Remedy: Start the query with a new checkpoint, or set the option that the message names.
   */
  val StreamChanged: String = s"${Prefix}_STREAM_CHANGED"

  /**
   * A write has more partitions than a limit allows; nothing was written.
   * Remedy: Raise the limit that the message names, or write fewer partitions at a time.
   */
  val TooManyPartitions: String = s"${Prefix}_TOO_MANY_PARTITIONS"

  /**
   * A table has no metadata table of this name.
   * Remedy: The message lists those there are.
   */
  val MetadataTableNotFound: String = s"${Prefix}_METADATA_TABLE_NOT_FOUND"
  /**
   * Strict mode refuses to read a partitioned table without a predicate on one of its partition columns.
   * Remedy: Add such a predicate, or set `hive.strict.checks.no.partition.filter` to false.
   */
  val PartitionPredicateRequired: String = s"${Prefix}_PARTITION_PREDICATE_REQUIRED"
  /**
   * A statement does with a view's partitions what only those of tables can take: TOUCH, ARCHIVE, RENAME, SET LOCATION.
   * Remedy: Add and drop partitions of a view; they have no files.
   */
  val ViewPartitionCommand: String = s"${Prefix}_VIEW_PARTITION_COMMAND"
  val PartitionNotFound: String = s"${Prefix}_PARTITION_NOT_FOUND"
  /**
   * A PARTITION clause names a column that is no partition column of the table.
   * Remedy: Name the partition columns that the message lists.
   */
  val PartitionKeyUnknown: String = s"${Prefix}_PARTITION_KEY_UNKNOWN"
  /**
   * A PARTITION clause of a statement about one partition leaves out partition columns.
   * Remedy: Give each of them a value.
   */
  val PartitionKeyMissing: String = s"${Prefix}_PARTITION_KEY_MISSING"
  /**
   * A PARTITION clause gives a partition column two values.
   * Remedy: Give one, or two clauses.
   */
  val PartitionKeyDoubled: String = s"${Prefix}_PARTITION_KEY_DOUBLED"
  /**
   * A statement about partitions names a table that has none.
   * Remedy: Leave out the PARTITION clause.
   */
  val NotPartitioned: String = s"${Prefix}_NOT_PARTITIONED"

  /**
   * A statement names a column that the table does not have.
   * Remedy: Name one of those that the message lists.
   */
  val ColumnNotFound: String = s"${Prefix}_COLUMN_NOT_FOUND"

  def analysis(
      code: String,
      text: String,
      parameters: Map[String, String] = Map.empty,
      cause: Option[Throwable] = None): AnalysisException =
    new CatalogExtAnalysisException(code, text, parameters, cause)

  def runtime(
      code: String,
      text: String,
      parameters: Map[String, String] = Map.empty,
      cause: Option[Throwable] = None): SparkRuntimeException =
    new CatalogExtRuntimeException(code, text, parameters, cause)

  /** An operation that Spark offers and this release does not, with what to do instead. */
  def notSupported(text: String): AnalysisException = analysis(NotSupported, text)
}

/** What the service said with a status other than 200. */
class ServiceException(
    val status: Int,
    val code: String,
    val text: String,
    val parameters: Map[String, String],
    val retryable: Boolean)
  extends RuntimeException(s"[$code] $text") {

  def is(suffix: String): Boolean = code == s"${ConnectorErrors.Prefix}_$suffix"

  /** The exception for the user, where Spark's interface asks for no particular one. */
  def toSpark: Throwable = status match {
    case 400 | 404 | 409 => ConnectorErrors.analysis(code, text, parameters, Some(this))
    case _ => ConnectorErrors.runtime(code, text, parameters, Some(this))
  }
}

object ServiceException {
  /** Runs `body`; a service error that `translate` does not take becomes an exception that PySpark understands. */
  def translatingTo[T](translate: PartialFunction[ServiceException, Throwable])(body: => T): T =
    try body catch {
      case e: ServiceException => throw translate.applyOrElse(e, (other: ServiceException) => other.toSpark)
    }

  /** Runs `body`; a service error becomes an exception that PySpark understands. */
  def translating[T](body: => T): T = translatingTo(PartialFunction.empty)(body)
}
