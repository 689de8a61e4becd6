package org.apache.spark.sql.catalogext.commands

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalogext.CatalogExtSessionCatalog
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.{LeafRunnableCommand, ShowProceduresCommand}
import org.apache.spark.sql.types.StringType

/** SHOW PROCEDURES of our catalogs tells the parameters too, behind Spark's own columns. */
class ShowSignatures extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case ShowProceduresCommand(ResolvedNamespace(catalog: CatalogBase, namespace, _), output) =>
      signatures(catalog, namespace, output)
    case ShowProceduresCommand(ResolvedNamespace(catalog: CatalogExtSessionCatalog, namespace, _), output) =>
      signatures(catalog.indexed, namespace, output)
  }

  private def signatures(catalog: CatalogBase, namespace: Seq[String], output: Seq[Attribute]): LogicalPlan = {
    val more = Seq("parameters", "description").map(AttributeReference(_, StringType, nullable = false)())
    ShowSignaturesCommand(catalog, namespace, output ++ more)
  }
}

case class ShowSignaturesCommand(catalog: CatalogBase, namespace: Seq[String], override val output: Seq[Attribute])
  extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] =
    catalog.procedureSignatures(namespace.toArray).map { procedure =>
      val schema = ProcedureOperations.Namespace
      Row(catalog.name(), schema.toSeq, schema.last, procedure.name, procedure.parameters, procedure.description)
    }
}
