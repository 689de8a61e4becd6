package org.apache.spark.sql.catalogext.parser

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.commands.ShowCreateDatabaseSyntax
import org.apache.spark.sql.catalogext.release.{LikeTables, ShownProcedures, StatementParameters, StatementSplitting,
  TableFunctions}
import org.apache.spark.sql.catalogext.session.IndexedNames
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{CodegenMode, CostMode, ExplainMode, ExtendedMode, FormattedMode, SimpleMode}
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

/** The parser of one kind of statement that Spark's grammar lacks. */
trait StatementSyntax {
  /**
   * Parses the statement at the cursor; None if the text is another statement. The cursor may have moved then; the
   * caller resets it. After a call of `cursor.begun(name)` a mismatch is a syntax error at its position.
   */
  def parse(cursor: StatementCursor): Option[LogicalPlan]
}

object StatementSyntax {
  /** The parsers of all such statements, in the order in which they are tried. */
  val All: Seq[StatementSyntax] = Seq(
    AlterPartitions,
    ShowSomePartitions,
    ShowCreateDatabaseSyntax,
    CreatePartitionedView,
    AlterViewPartitions,
  ) ++ LikeTables.Syntax ++ ShownProcedures.Syntax
}

/**
 * Spark's parser with a fallback. Spark parses every text first, unchanged. Only a text that Spark refuses is parsed as
 * a statement of this connector. If that does not match either, or the statement is about another catalog, Spark's
 * error is reported.
 */
class StatementParser(
    session: SparkSession,
    protected val delegate: ParserInterface,
    syntaxes: Seq[StatementSyntax])
  extends ParserInterface with StatementParameters with StatementSplitting {

  private lazy val names = new IndexedNames(session)

  override def parsePlan(text: String): LogicalPlan =
    try delegate.parsePlan(text) catch {
      case refusal: ParseException => ours(text, refusal, Parameters.None, parsePlan)
    }

  override protected def ours(
      text: String, refusal: ParseException, parameters: Parameters, again: String => LogicalPlan): LogicalPlan = {
    val substituted = new VariableSubstitution().substitute(text)
    val cursor = new StatementCursor(substituted, delegate, refusal, parameters)
    TableFunctions.spelled(cursor).fold(
      syntaxes.iterator.flatMap(attempt(_, cursor)).nextOption().getOrElse(throw refusal))(again)
  }

  private def attempt(syntax: StatementSyntax, cursor: StatementCursor): Option[LogicalPlan] = {
    cursor.restart()
    try {
      val mode = explained(cursor)
      syntax.parse(cursor).map { plan =>
        cursor.expectEnd()
        mode.fold(plan)(ExplainCommand(plan, _))
      }
    } catch {
      case _: ParseException if !cursor.name.exists(names.areIndexed) => None
    }
  }.filter(_ => cursor.name.forall(names.areIndexed))

  private def explained(cursor: StatementCursor): Option[ExplainMode] = Option.when(cursor.take("EXPLAIN")) {
    val modes = Seq(ExtendedMode, CodegenMode, CostMode, FormattedMode)
    modes.find(mode => cursor.take(mode.name)).getOrElse(SimpleMode)
  }

  override def parseExpression(text: String): Expression = delegate.parseExpression(text)
  override def parseTableIdentifier(text: String): TableIdentifier = delegate.parseTableIdentifier(text)
  override def parseFunctionIdentifier(text: String): FunctionIdentifier = delegate.parseFunctionIdentifier(text)
  override def parseMultipartIdentifier(text: String): Seq[String] = delegate.parseMultipartIdentifier(text)
  override def parseQuery(text: String): LogicalPlan = delegate.parseQuery(text)
  override def parseRoutineParam(text: String): StructType = delegate.parseRoutineParam(text)
  override def parseTableSchema(text: String): StructType = delegate.parseTableSchema(text)
  override def parseDataType(text: String): DataType = delegate.parseDataType(text)
}

/** The values of the parameters `:name` and `?` in a statement. */
case class Parameters(named: Map[String, Expression], positional: Seq[Expression]) {
  /** The SQL text of a parameter's value; None if it is missing or not a constant. */
  def sql(name: Option[String], index: Int): Option[String] =
    name.fold(positional.lift(index))(named.get).collect { case literal: Literal => literal.sql }
}

object Parameters {
  val None: Parameters = Parameters(Map.empty, Nil)
}
