package org.apache.spark.sql.catalogext

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{ResolvedPartitionSpec, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.{Attribute, GenericInternalRow}
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, RecoverPartitions, RepairTable,
  ShowPartitions, TruncatePartition}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2ScanRelation, LeafV2CommandExec}
import org.apache.spark.unsafe.types.UTF8String

/** What `spark.sql.extensions` names: the commands that Spark has for its own tables only, and what INSERT means. */
class CatalogExtExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectParser((session, parser) => new StatementParser(session, parser, StatementSyntax.All))
    extensions.injectHintResolutionRule(new MarkInserts(_))
    extensions.injectResolutionRule(_ => new ResolveInserts)
    extensions.injectResolutionRule(_ => new ShowSignatures)
    extensions.injectPlannerStrategy(new PartitionCommandStrategy(_))
    extensions.injectPlannerStrategy(new TableCommandStrategy(_))
  }
}

/** Plans partition commands on our tables, before Spark's own strategy refuses them or prints other names. */
class PartitionCommandStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case RepairTable(ResolvedTable(_, _, table: CatalogExtTable, _), add, drop) =>
      Seq(RepairPartitionsExec(table, RepairPartitionsExec.mode(add, drop)))
    case RecoverPartitions(ResolvedTable(_, _, table: CatalogExtTable, _)) =>
      Seq(RepairPartitionsExec(table, "add"))
    case ShowPartitions(ResolvedTable(_, _, table: CatalogExtTable, _), spec, output)
        if spec.forall(_.isInstanceOf[ResolvedPartitionSpec]) =>
      Seq(ShowPartitionNamesExec(output, table, spec.map(_.asInstanceOf[ResolvedPartitionSpec])))
    case TruncatePartition(ResolvedTable(_, _, table: CatalogExtTable, _), spec: ResolvedPartitionSpec) =>
      Seq(TruncatePartitionsExec(table, spec))
    // Spark's own refusal does not say what can be done.
    case DeleteFromTable(DataSourceV2ScanRelation(relation, _, _, _, _, _, _), condition) =>
      relation.table match {
        case table: CatalogExtTable => table.checkDeletion(condition)
        case _ =>
      }
      Nil
    case _ => Nil
  }
}

/** TRUNCATE TABLE ... PARTITION: one request, however many partitions a partial specification has. */
case class TruncatePartitionsExec(table: CatalogExtTable, spec: ResolvedPartitionSpec) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    table.truncatePartitionsOf(spec.names, spec.ident)
    CachedPlans.refresh(session, table)
    Nil
  }
}

/** MSCK REPAIR TABLE and RECOVER PARTITIONS: like Spark's, it returns no rows. */
case class RepairPartitionsExec(table: CatalogExtTable, mode: String) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    new ProcedureOperations(table.catalogName, table.client)
      .call("repair_partitions", "table" -> table.metadata.qualifiedName, "mode" -> mode)
    CachedPlans.refresh(session, table)
    Nil
  }
}

object RepairPartitionsExec {
  def mode(add: Boolean, drop: Boolean): String = (add, drop) match {
    case (true, true) => "sync"
    case (false, true) => "drop"
    case _ => "add"
  }
}

/** Prints the names as they are on the store; Spark's own exec would write them anew from the typed values. */
case class ShowPartitionNamesExec(output: Seq[Attribute], table: CatalogExtTable, spec: Option[ResolvedPartitionSpec])
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val names = spec.fold(Seq.empty[String])(_.names)
    val values = spec.fold[InternalRow](new GenericInternalRow(Array.empty[Any]))(_.ident)
    table.partitionNames(names, values).map(name => InternalRow(UTF8String.fromString(name)))
  }
}
