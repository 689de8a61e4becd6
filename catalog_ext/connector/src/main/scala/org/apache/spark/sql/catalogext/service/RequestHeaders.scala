package org.apache.spark.sql.catalogext.service

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.CurrentUserContext

/** The user on whose behalf this thread works, for the history of what is written. */
private[catalogext] object SessionUser {
  /** Carries the name, percent-encoded. */
  val Header = "X-Catalog-Ext-User"

  /** Code points that the service keeps. */
  private val Longest = 128

  /** How Spark Connect tags the jobs of an operation. Spark's own `current_user()` does not name its client. */
  private val OfConnect = "(?s)SparkConnect_OperationTag_User_(.+)_Session_.+_Operation_.+".r

  /** The client's name in Spark Connect; otherwise what `current_user()` says, which knows the Thrift server's clients. */
  def name: String = ofConnect.getOrElse(CurrentUserContext.getCurrentUser)

  /** The name as the header has it; none where there is no name. */
  def encoded: Option[String] = encode(name)

  /** A name as the header has it: the service refuses control characters, and no statement fails for one. */
  def encode(name: String): Option[String] = {
    val points = name.codePoints().map(point => if (Character.isISOControl(point)) '?' else point).limit(Longest).toArray
    Some(new String(points, 0, points.length).trim).filter(_.nonEmpty)
      .map(URLEncoder.encode(_, UTF_8).replace("+", "%20"))
  }

  private def ofConnect: Option[String] =
    SparkContext.getActive.flatMap(context => Option(context.getLocalProperty(SparkContext.SPARK_JOB_TAGS)))
      .flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP).collectFirst { case OfConnect(user) => user })
}

/** The span of the driver's program that this thread works for, by W3C's trace context. */
private[catalogext] object TraceContext {
  val Header = "traceparent"

  /** The local property by which a program says it (`catalog_ext.traced`); the environment speaks for a whole job. */
  private val Property = "catalog-ext.traceparent"
  private val Variable = "TRACEPARENT"
  private val Form = "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}".r

  /** None where it was not given, or where it is no trace context: no statement fails for one. */
  def current: Option[String] =
    SparkContext.getActive.flatMap(context => Option(context.getLocalProperty(Property)))
      .orElse(sys.env.get(Variable)).filter(Form.matches)
}
