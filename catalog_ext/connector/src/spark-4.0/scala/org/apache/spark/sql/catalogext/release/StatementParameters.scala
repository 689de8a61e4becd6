package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.Parameters
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Spark 4.0 parses a statement without its parameters, whose values it puts into the plan afterwards. */
trait StatementParameters extends ParserInterface {
  protected def delegate: ParserInterface
  protected def ours(
      text: String, refusal: ParseException, parameters: Parameters, again: String => LogicalPlan): LogicalPlan
}

object StatementParameters {
  val Missing: String = "in a statement that Spark itself has not: it takes parameters from Spark 4.1 on. Put the value " +
    "into the text"
}
