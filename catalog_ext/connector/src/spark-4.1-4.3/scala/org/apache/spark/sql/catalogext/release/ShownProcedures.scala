package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementSyntax
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.ProcedureCatalog
import org.apache.spark.sql.execution.command.ShowProceduresCommand

/** SHOW PROCEDURES: the namespace and Spark's columns. */
object ShownProcedures {
  /** The statement where Spark's grammar lacks it. */
  val Syntax: Option[StatementSyntax] = None

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Seq[Attribute])] = plan match {
    case ShowProceduresCommand(namespace, output) => Some((namespace, output))
    case _ => None
  }
}

/** A catalog that lists its procedures. */
trait ListedProcedures extends ProcedureCatalog
