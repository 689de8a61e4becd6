package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable}
import org.apache.spark.sql.catalogext.paths.AdHocTable
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, Json, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.session.CachedPlans
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{ResolvedNamespace, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{AnalyzeColumn, AnalyzeTable, AnalyzeTables, DeleteFromTable,
  DescribeColumn, LoadData, LogicalPlan, SetTableSerDeProperties}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.DescribeRelationJsonCommand
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2ScanRelation, LeafV2CommandExec}

/** Plans partition commands on tables of this connector, before Spark's own strategy refuses them. */
class PartitionCommandStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PartitionCommand(ResolvedTable(_, _, table: CatalogExtTable, _), action, _) =>
      Seq(PartitionCommandExec(table, action))
    case ExchangePartitions(
        ResolvedTable(_, _, target: CatalogExtTable, _), ResolvedTable(_, _, source: CatalogExtTable, _), specs, _) =>
      Seq(ExchangePartitionsExec(target, source, specs))
    case RepairPartitions(table, mode, output) => Seq(RepairPartitionsExec(table, mode, output))
    case AnalyzeTable(ResolvedTable(_, _, table: CatalogExtTable, _), spec, noScan) =>
      Seq(AnalyzeTableExec(table, spec, noScan))
    case AnalyzeTables(ResolvedNamespace(catalog: CatalogBase, namespace, _), noScan) =>
      Seq(AnalyzeTablesExec(catalog, namespace, noScan))
    case AnalyzeColumn(ResolvedTable(_, _, table: CatalogExtTable, _), names, _) =>
      Seq(AnalyzeColumnsExec(table, names))
    case DescribeColumn(ResolvedTable(_, _, table: CatalogExtTable, _), column: Attribute, true, output) =>
      Seq(DescribeColumnExec(output, table, column))
    case LoadData(ResolvedTable(_, _, table: CatalogExtTable, _), path, isLocal, overwrite, spec) =>
      Seq(LoadDataExec(table, path, isLocal, overwrite, spec))
    case SetTableSerDeProperties(ResolvedTable(_, _, table: CatalogExtTable, _), serde, properties, spec) =>
      spec.foreach(_ => throw ConnectorErrors.notSupported(
        s"ALTER TABLE ${table.name()} PARTITION … SET SERDE: a partition of catalog-ext has the SerDe and the " +
          "SERDEPROPERTIES of its table. Leave PARTITION out where they hold for all, or keep the partition's files in " +
          "a table of their own."))
      Seq(SetSerDeExec(table, serde, properties.getOrElse(Map.empty)))
    case DescribeRelationJsonCommand(ResolvedTable(_, _, table: CatalogExtTable, _), _, _, _) =>
      throw ConnectorErrors.notSupported(
        s"DESCRIBE … AS JSON is of Spark's own tables, and ${table.name()} is one of catalog-ext. DESCRIBE EXTENDED shows " +
          s"the same as rows, and `catalog-ext describe ${table.metadata.qualifiedName} --json` as JSON.")
    case DescribeRelationJsonCommand(ResolvedTable(_, _, path: AdHocTable, _), _, _, _) => throw ConnectorErrors.notSupported(
      s"DESCRIBE … AS JSON is of Spark's own tables, and ${path.name()} is a path. DESCRIBE EXTENDED shows the same as rows.")
    // Check the condition here: Spark's own error does not say which conditions DELETE supports.
    case DeleteFromTable(scanned: DataSourceV2ScanRelation, condition) =>
      scanned.relation.table match {
        case table: CatalogExtTable => table.checkDeletion(condition)
        case _ =>
      }
      Nil
    case _ => Nil
  }
}

/** One partition statement, executed by one request, however many partitions it names. */
case class PartitionCommandExec(table: CatalogExtTable, action: PartitionAction) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = action.output

  override protected def run(): Seq[InternalRow] = {
    val requests = new PartitionRequests(table)
    def changed(change: => Unit): Seq[InternalRow] = {
      change
      CachedPlans.refresh(session, table)
      Nil
    }
    action match {
      case AddAction(partitions, ifNotExists) => changed(requests.add(
        partitions.map { case (spec, location) => Json.map(spec) -> location }, ifNotExists))
      case DropAction(clauses, ifExists, purge) =>
        changed(requests.drop(clauses, ifExists, purge))
      case RenameAction(from, to) =>
        changed(requests.rename(Json.map(from), Json.map(to)))
      case RelocateAction(spec, location) =>
        changed(requests.relocate(Json.map(spec), location))
      case TruncateAction(spec) =>
        changed(table.deletion.truncate(PartitionClauses.equalities(spec)))
      case ShowAction(spec, _) => PartitionDescriptions.names(table.partitions, spec)
      case describe: DescribeAction => PartitionDescriptions.describe(table, describe)
      case show: ShowExtendedAction => PartitionDescriptions.showExtended(table, show)
      case query: QueryAction => throw new IllegalStateException(s"$query is a query, not a command")
    }
  }
}

/** ALTER TABLE ... EXCHANGE PARTITION. */
case class ExchangePartitionsExec(target: CatalogExtTable, source: CatalogExtTable, given: Seq[Map[String, String]])
  extends LeafV2CommandExec {

  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    new PartitionRequests(target).exchange(source, given.map(Json.map(_)))
    Seq(target, source).foreach(CachedPlans.refresh(session, _))
    Nil
  }
}

/** MSCK REPAIR TABLE and RECOVER PARTITIONS. The rows of the result list the changes and the skipped paths. */
case class RepairPartitionsExec(table: CatalogExtTable, mode: String, output: Seq[Attribute])
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val report = new ProcedureOperations(table.catalogName, table.client)
      .call("repair_partitions", "table" -> table.metadata.qualifiedName, "mode" -> mode)
    CachedPlans.refresh(session, table)
    val skipped = report.count(_.getUTF8String(0).toString == "skip")
    if (skipped > 0) {
      logWarning(s"The repair of ${table.name()} skipped $skipped paths; its rows name them, with the reasons")
    }
    report
  }
}

/**
 * The requests for partition commands (`partitions/…`). Each statement is one request, which the service applies
 * completely or not at all.
 */
class PartitionRequests(table: CatalogExtTable) {
  /**
   * Adds partitions.
   *
   * @param partitions the specs, each with its location if the statement gives one
   */
  def add(partitions: Seq[(JsonNode, Option[String])], ifNotExists: Boolean): Unit = send("add",
    "partitions" -> arr(partitions.map { case (spec, location) => obj("spec" -> spec, "location" -> text(location)) }),
    "if_not_exists" -> bool(ifNotExists))

  /**
   * Drops the partitions that match predicates.
   *
   * @param predicates one for each PARTITION clause
   */
  def dropMatching(predicates: Seq[JsonNode], ifExists: Boolean, purge: Boolean): Unit = send("drop",
    "predicates" -> arr(predicates), "clauses" -> arr(Nil), "if_exists" -> bool(ifExists), "purge" -> bool(purge))

  /**
   * Drops the partitions that match PARTITION clauses.
   *
   * @param clauses the clauses of the statement
   */
  def drop(clauses: Seq[Seq[KeyComparison]], ifExists: Boolean, purge: Boolean): Unit = send("drop",
    "predicates" -> arr(Nil), "clauses" -> PartitionClauses.json(clauses), "if_exists" -> bool(ifExists),
    "purge" -> bool(purge))

  def rename(from: JsonNode, to: JsonNode): Unit = send("rename", "from" -> from, "to" -> to)

  def relocate(spec: JsonNode, location: String): Unit =
    send("relocate", "spec" -> spec, "location" -> text(location))

  def exchange(source: CatalogExtTable, specs: Seq[JsonNode]): Unit = send("exchange",
    "source_id" -> long(source.metadata.tableId), "source_version" -> long(source.metadata.version),
    "specs" -> arr(specs))

  private def send(command: String, fields: (String, JsonNode)*): Unit = {
    val request = Seq(
      "table_id" -> long(table.metadata.tableId), "version" -> long(table.metadata.version),
      "session" -> PartitionClauses.changing(table.catalogName)) ++ fields
    // The request may move many files, so it has no time limit.
    ServiceException.translating(table.client.call(s"partitions/$command", obj(request: _*), limited = false))
  }
}
