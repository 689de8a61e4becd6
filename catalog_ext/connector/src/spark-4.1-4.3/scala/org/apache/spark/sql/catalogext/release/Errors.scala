package org.apache.spark.sql.catalogext.release

import org.apache.spark.QueryContext
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.trees.Origin

/** An analysis error with a condition that Spark's own list does not have. */
abstract class OwnAnalysisException(
    text: String,
    condition: String,
    sqlState: String,
    parameters: Map[String, String],
    cause: Option[Throwable],
    at: Origin)
  extends AnalysisException(
    message = text,
    line = at.line,
    startPosition = at.startPosition,
    cause = cause,
    errorClass = Some(condition),
    messageParameters = parameters,
    context = Array.empty[QueryContext],
    sqlState = Some(sqlState),
    messageTemplate = None)

object Errors {
  /** A syntax error at a position of the text `of`. */
  def parse(of: String, at: Origin, condition: String, parameters: Map[String, String]): ParseException =
    new ParseException(Some(of), at, condition, parameters)
}
