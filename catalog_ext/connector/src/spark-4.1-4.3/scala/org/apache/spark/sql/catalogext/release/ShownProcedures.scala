package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementSyntax
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.ProcedureCatalog
import org.apache.spark.sql.execution.command.ShowProceduresCommand

/** SHOW PROCEDURES: extractor of the namespace and the output columns. */
object ShownProcedures {
  /** None, because Spark's grammar has the statement. */
  val Syntax: Option[StatementSyntax] = None

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Seq[Attribute])] = plan match {
    case ShowProceduresCommand(namespace, output) => Some((namespace, output))
    case _ => None
  }
}

/** A catalog that lists its procedures. */
trait ListedProcedures extends ProcedureCatalog
