package org.apache.spark.sql.catalogext.service

import org.apache.spark.SparkContext

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
