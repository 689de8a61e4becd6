package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.{StatementCursor, StatementSyntax}
import org.apache.spark.sql.catalyst.analysis.{CurrentNamespace, UnresolvedNamespace}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.connector.catalog.{Identifier, ProcedureCatalog}
import org.apache.spark.sql.types.{ArrayType, StringType}

/** SHOW PROCEDURES, which Spark has since 4.1: extractor of the namespace and the output columns. */
object ShownProcedures {
  /** The statement's syntax, which Spark's grammar lacks. */
  val Syntax: Option[StatementSyntax] = Some(ProceduresSyntax)

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Seq[Attribute])] = plan match {
    case ShowProceduresStatement(namespace, output) => Some((namespace, output))
    case _ => None
  }
}

private object ProceduresSyntax extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] = if (!cursor.take("SHOW", "PROCEDURES")) None else {
    val namespace = if (cursor.take("IN") || cursor.take("FROM")) Some(cursor.expectName("a namespace")) else None
    // The parser needs a table name to decide whether the statement is about a catalog of this connector. Any table
    // name in the namespace gives the same answer.
    cursor.begun(namespace.getOrElse(Nil) :+ "any")
    Some(ShowProceduresStatement(namespace.fold[LogicalPlan](CurrentNamespace)(UnresolvedNamespace(_))))
  }
}

/** The statement, once `child` is resolved. */
case class ShowProceduresStatement(
    child: LogicalPlan,
    override val output: Seq[Attribute] = Seq(
      AttributeReference("catalog", StringType, nullable = false)(),
      AttributeReference("namespace", ArrayType(StringType, containsNull = false), nullable = false)(),
      AttributeReference("schema", StringType, nullable = false)(),
      AttributeReference("procedure_name", StringType, nullable = false)()))
  extends UnaryCommand {

  override protected def withNewChildInternal(newChild: LogicalPlan): ShowProceduresStatement = copy(child = newChild)
}

/** A catalog that lists its procedures. */
trait ListedProcedures extends ProcedureCatalog {
  def listProcedures(namespace: Array[String]): Array[Identifier]
}
