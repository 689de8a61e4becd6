package org.apache.spark.sql.catalogext.commands

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.metadata.MetadataTable
import org.apache.spark.sql.catalogext.release.DescribePartition
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.session.IndexedNames
import org.apache.spark.sql.catalyst.analysis.{PartitionSpec, ResolvedTable, UnresolvedPartitionSpec, UnresolvedTable,
  UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SortOrder}
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.types.{LongType, StringType, StructType}

/**
 * The action of a partition statement. Partition specs are maps from keys to literals, as Spark's parser returns them.
 */
sealed trait PartitionAction {
  def output: Seq[Attribute] = Nil
}
case class AddAction(partitions: Seq[(Map[String, String], Option[String])], ifNotExists: Boolean)
  extends PartitionAction
case class DropAction(clauses: Seq[Seq[KeyComparison]], ifExists: Boolean, purge: Boolean) extends PartitionAction
case class RenameAction(from: Map[String, String], to: Map[String, String]) extends PartitionAction
case class RelocateAction(spec: Map[String, String], location: String) extends PartitionAction
case class TruncateAction(spec: Map[String, String]) extends PartitionAction
case class ShowAction(spec: Option[Map[String, String]], override val output: Seq[Attribute]) extends PartitionAction
case class DescribeAction(spec: Map[String, String], extended: Boolean, override val output: Seq[Attribute])
  extends PartitionAction
case class ShowExtendedAction(spec: Map[String, String], override val output: Seq[Attribute]) extends PartitionAction
/** SHOW PARTITIONS with WHERE, ORDER BY or LIMIT. Once the table is resolved, a query replaces it. */
case class QueryAction(
    spec: Map[String, String], condition: Option[Expression], order: Seq[SortOrder], limit: Option[Expression])
  extends PartitionAction

/**
 * A partition statement on one table.
 *
 * @param spark the result if the table is not in a catalog of this connector: Spark's plan of the statement, or the
 *              error of Spark's parser
 */
case class PartitionCommand(table: LogicalPlan, action: PartitionAction, spark: Either[ParseException, LogicalPlan])
  extends UnaryCommand {

  override def child: LogicalPlan = table
  override def output: Seq[Attribute] = action.output
  override protected def stringArgs: Iterator[Any] = Iterator(action)
  override protected def withNewChildInternal(changed: LogicalPlan): PartitionCommand = copy(table = changed)
}

/** Moves partitions of `source` into `target`. */
case class ExchangePartitions(
    target: LogicalPlan, source: LogicalPlan, specs: Seq[Map[String, String]], refusal: ParseException)
  extends BinaryCommand {

  override def left: LogicalPlan = target
  override def right: LogicalPlan = source
  override protected def stringArgs: Iterator[Any] = Iterator(specs)
  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): ExchangePartitions =
    copy(target = newLeft, source = newRight)
}

/** MSCK REPAIR TABLE and RECOVER PARTITIONS of a table of this connector. Unlike Spark's commands they return rows. */
case class RepairPartitions(table: CatalogExtTable, mode: String, override val output: Seq[Attribute])
  extends LeafCommand {
  override protected def stringArgs: Iterator[Any] = Iterator(table.name(), mode)
}

object RepairPartitions {
  def apply(table: CatalogExtTable, mode: String): RepairPartitions =
    RepairPartitions(table, mode, DataTypeUtils.toAttributes(Rows))

  def mode(add: Boolean, drop: Boolean): String = (add, drop) match {
    case (true, true) => "sync"
    case (false, true) => "drop"
    case _ => "add"
  }

  /** The columns of the procedure repair_partitions. */
  private val Rows = new StructType().add("action", StringType).add("partition", StringType).add("path", StringType)
    .add("files", LongType).add("bytes", LongType).add("reason", StringType)
}

/** Replaces Spark's partition statements on tables that may be in the index, before Spark resolves their specs. */
class MarkPartitionCommands(session: SparkSession) extends Rule[LogicalPlan] {
  private val names = new IndexedNames(session)

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case command: UnaryCommand => action(command).filter(_ => isOurs(command.child))
      .fold[LogicalPlan](command)(PartitionCommand(command.child, _, Right(command)))
  }

  private def isOurs(child: LogicalPlan): Boolean = child match {
    case table: UnresolvedTable => names.areIndexed(table.multipartIdentifier)
    case table: UnresolvedTableOrView => names.areIndexed(table.multipartIdentifier)
    case _ => false
  }

  private def action(command: LogicalPlan): Option[PartitionAction] = command match {
    case AddPartitions(_, Specs(specs), ifNotExists) => Some(AddAction(specs, ifNotExists))
    case DropPartitions(_, Specs(specs), ifExists, purge) =>
      Some(DropAction(specs.map { case (spec, _) => PartitionClauses.equalities(spec) }, ifExists, purge))
    case RenamePartitions(_, Spec(from), Spec(to)) => Some(RenameAction(from, to))
    case SetTableLocation(_, Some(spec), location) => Some(RelocateAction(spec, location))
    case TruncatePartition(_, Spec(spec)) => Some(TruncateAction(spec))
    case ShowPartitions(_, None, output) => Some(ShowAction(None, output))
    case ShowPartitions(_, Some(Spec(spec)), output) => Some(ShowAction(Some(spec), output))
    case DescribePartition(spec, extended, output) => Some(DescribeAction(spec, extended, output))
    case ShowTablePartition(_, Spec(spec), output) => Some(ShowExtendedAction(spec, output))
    case _ => None
  }

  private object Spec {
    def unapply(spec: PartitionSpec): Option[Map[String, String]] = spec match {
      case UnresolvedPartitionSpec(values, _) => Some(values)
      case _ => None
    }
  }

  private object Specs {
    def unapply(specs: Seq[PartitionSpec]): Option[Seq[(Map[String, String], Option[String])]] =
      Option.when(specs.forall(_.isInstanceOf[UnresolvedPartitionSpec]))(
        specs.collect { case UnresolvedPartitionSpec(values, location) => values -> location })
  }
}

/**
 * Resolves repairs and partition commands. A statement whose name is not a table of the index is given back to Spark.
 */
class ResolvePartitionCommands extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case PartitionCommand(ResolvedTable(_, _, table: CatalogExtTable, _), query: QueryAction, _) =>
      PartitionQuery(table, query)
    case command @ PartitionCommand(ResolvedTable(_, _, _: CatalogExtTable, _), _, _) => command
    case PartitionCommand(ResolvedTable(_, _, table: MetadataTable, _), _, _) => throw noPartitions(table)
    case PartitionCommand(relation, _, Right(command)) if relation.resolved => command.withNewChildren(Seq(relation))
    case PartitionCommand(relation, _, Left(refusal)) if relation.resolved => throw refusal
    case RepairTable(ResolvedTable(_, _, table: CatalogExtTable, _), add, drop) =>
      requireKeys(table, "MSCK REPAIR TABLE")
      RepairPartitions(table, RepairPartitions.mode(add, drop))
    case RecoverPartitions(ResolvedTable(_, _, table: CatalogExtTable, _)) =>
      requireKeys(table, "ALTER TABLE RECOVER PARTITIONS")
      RepairPartitions(table, "add")
    case command @ ExchangePartitions(target: ResolvedTable, source: ResolvedTable, _, refusal) =>
      (target.table, source.table) match {
        case (into: CatalogExtTable, from: CatalogExtTable) if into.catalogName == from.catalogName => command
        case (into: CatalogExtTable, other) => throw ConnectorErrors.notSupported(
          s"EXCHANGE PARTITION moves partitions between two tables of one catalog: ${other.name()} is no table of " +
            s"${into.catalogName}. INSERT INTO ${into.name()} SELECT … copies its rows.")
        case _ => throw refusal
      }
  }

  /** Refuses the repair of a table without partition columns, as Spark does: the user probably means another table. */
  private def requireKeys(table: CatalogExtTable, statement: String): Unit =
    if (table.metadata.partitionColumns.isEmpty) throw new AnalysisException(
      errorClass = "NOT_A_PARTITIONED_TABLE",
      messageParameters = Map("operation" -> statement, "tableIdentWithDB" ->
        Seq(table.catalogName, table.metadata.namespace, table.metadata.name).map(quoteIdentifier).mkString(".")))

  private def noPartitions(table: Table): Throwable = ConnectorErrors.notSupported(
    s"${table.name()} is a metadata table, and has no partitions.")
}
