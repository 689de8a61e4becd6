package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.Parameters
import org.apache.spark.sql.catalyst.parser.{HybridParameterContext, NamedParameterContext, ParameterContext,
  ParseException, ParserInterface, PositionalParameterContext}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Spark passes the values of a statement's parameters to the parser, together with the text. */
trait StatementParameters extends ParserInterface {
  protected def delegate: ParserInterface
  /**
   * Parses a text that Spark's parser has refused. Raises Spark's error if it is no statement of this connector either.
   *
   * @param again parses another text with the same parameters
   */
  protected def ours(
      text: String, refusal: ParseException, parameters: Parameters, again: String => LogicalPlan): LogicalPlan

  override def parsePlanWithParameters(text: String, context: ParameterContext): LogicalPlan =
    try delegate.parsePlanWithParameters(text, context) catch {
      case refusal: ParseException => ours(text, refusal, valuesOf(context), parsePlanWithParameters(_, context))
    }

  private def valuesOf(context: ParameterContext): Parameters = context match {
    case NamedParameterContext(values) => Parameters(values, Nil)
    case PositionalParameterContext(values) => Parameters(Map.empty, values)
    case hybrid: HybridParameterContext =>
      Parameters(hybrid.paramNames.zip(hybrid.args).filter(_._1.nonEmpty).toMap, hybrid.args)
    case _ => Parameters.None
  }
}

object StatementParameters {
  /** The error for a parameter without a value in a statement of this connector. */
  val Missing: String = "has no value, or one that is not a constant"
}
