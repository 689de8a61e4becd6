package org.apache.spark.sql.catalogext.service

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.CurrentUserContext

/** The user for whom this thread works; it is recorded in the history of writes. */
private[catalogext] object SessionUser {
  /** The header with the percent-encoded name. */
  val Header = "X-Catalog-Ext-User"

  /** Maximum length that the service stores, in code points. */
  private val Longest = 128

  /**
   * The job tag that Spark Connect sets for an operation. Spark's own `current_user()` does not return the Connect
   * client's user.
   */
  private val OfConnect = "(?s)SparkConnect_OperationTag_User_(.+)_Session_.+_Operation_.+".r

  /** The client's user of Spark Connect; otherwise `current_user()`, which returns the Thrift server's clients. */
  def name: String = ofConnect.getOrElse(CurrentUserContext.getCurrentUser)

  /** The encoded name; None if there is no name. */
  def encoded: Option[String] = encode(name)

  /**
   * Encodes a name. Characters that the service refuses are replaced with a question mark: no statement may fail
   * because of a name.
   */
  def encode(name: String): Option[String] = {
    val points = name.codePoints().map(point => if (isRefused(point)) '?' else point).limit(Longest).toArray
    Some(new String(points, 0, points.length).trim).filter(_.nonEmpty)
      .map(URLEncoder.encode(_, UTF_8).replace("+", "%20"))
  }

  /**
   * Whether the service refuses the character (`metastore/runtime/users.py`): it cannot be printed, or breaks lines or
   * changes their direction.
   */
  private def isRefused(point: Int): Boolean = Character.getType(point).toByte match {
    case Character.CONTROL | Character.FORMAT | Character.SURROGATE | Character.PRIVATE_USE |
        Character.LINE_SEPARATOR | Character.PARAGRAPH_SEPARATOR => true
    case Character.SPACE_SEPARATOR => point != ' '
    case _ => false
  }

  private def ofConnect: Option[String] =
    SparkContext.getActive.flatMap(context => Option(context.getLocalProperty(SparkContext.SPARK_JOB_TAGS)))
      .flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP).collectFirst { case OfConnect(user) => user })
}

/** The W3C trace context of the driver's program for which this thread works. */
private[catalogext] object TraceContext {
  val Header = "traceparent"

  /**
   * The local property of Spark by which a program sets the context (`catalog_ext.traced`), and the environment
   * variable that sets it for the whole job.
   */
  private val Property = "catalog-ext.traceparent"
  private val Variable = "TRACEPARENT"
  private val Form = "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}".r

  /** The trace context; None if it is not set or invalid, because no statement may fail for that reason. */
  def current: Option[String] =
    SparkContext.getActive.flatMap(context => Option(context.getLocalProperty(Property)))
      .orElse(sys.env.get(Variable)).filter(Form.matches)
}
