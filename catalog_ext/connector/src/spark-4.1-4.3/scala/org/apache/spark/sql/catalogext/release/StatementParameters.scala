package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.Parameters
import org.apache.spark.sql.catalyst.parser.{HybridParameterContext, NamedParameterContext, ParameterContext,
  ParseException, ParserInterface, PositionalParameterContext}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The values of a statement's parameters come to the parser with its text. */
trait StatementParameters extends ParserInterface {
  protected def delegate: ParserInterface
  /**
   * The plan of a text that Spark's parser has refused; raises the refusal where the text is no statement of ours.
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
  /** Why a parameter in a statement of ours has no value. */
  val Missing: String = "has no value, or one that is not a constant"
}
