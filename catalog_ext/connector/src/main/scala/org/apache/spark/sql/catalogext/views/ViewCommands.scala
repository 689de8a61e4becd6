package org.apache.spark.sql.catalogext.views

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.CatalogExtCatalog
import org.apache.spark.sql.catalogext.commands.{DescribeAction, PartitionCommand, ShowAction}
import org.apache.spark.sql.catalogext.release.Views
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedIdentifier, UnresolvedTable,
  UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, Table}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * A partition in a statement on a view, with its columns and values as texts (null for NULL), and with its LOCATION if
 * there is one.
 */
case class ViewPartition(values: Seq[(String, String)], location: Option[String])

sealed trait ViewPartitionChange
case class AddedPartitions(partitions: Seq[ViewPartition], ifNotExists: Boolean) extends ViewPartitionChange
case class DroppedPartitions(partitions: Seq[ViewPartition], ifExists: Boolean) extends ViewPartitionChange
case class RefusedChange(command: String) extends ViewPartitionChange

/** ALTER VIEW ... ADD / DROP PARTITION. `refusal` is Spark's syntax error, which is raised for other views. */
case class ViewPartitionCommand(child: LogicalPlan, change: ViewPartitionChange, refusal: ParseException)
  extends UnaryCommand {

  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** SHOW PARTITIONS of a view. */
case class ShowViewPartitions(view: CatalogExtView, spec: Map[String, String], override val output: Seq[Attribute])
  extends LeafCommand

/** DESCRIBE [EXTENDED] view PARTITION (...). */
case class DescribeViewPartition(
    view: CatalogExtView, spec: Map[String, String], extended: Boolean, override val output: Seq[Attribute])
  extends LeafCommand

/**
 * Resolves Spark's partition commands whose name is a view of this connector, before Spark looks for a table. The
 * loaded relation is kept, so that a table is loaded only once.
 */
class ResolveViewPartitions(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // Look the name up only for commands that a view can have, because each look-up is a request.
    case show @ PartitionCommand(name, ShowAction(spec, output), _) => found(name) match {
      case Some(Left(view)) => ShowViewPartitions(view, spec.getOrElse(Map.empty), output)
      case Some(Right(table)) => show.copy(table = table)
      case None => show
    }
    case describe @ PartitionCommand(name, DescribeAction(spec, extended, output), _) => found(name) match {
      case Some(Left(view)) => DescribeViewPartition(view, spec, extended, output)
      case Some(Right(table)) => describe.copy(table = table)
      case None => describe
    }
    case create: CreateView if create.properties.contains(CatalogExtView.PartitionedOn) =>
      create.child match {
        case UnresolvedIdentifier(CatalogAndIdentifier(catalog, _), _) if !catalog.isInstanceOf[CatalogExtCatalog] =>
          throw ViewErrors.elsewhere(catalog.name())
        case _ => create
      }
    case other => other
  }

  /** The view or table of a name in a catalog of this connector. */
  private def found(plan: LogicalPlan): Option[Either[CatalogExtView, LogicalPlan]] = plan match {
    case UnresolvedTable(name, _, _) => found(name)
    case either: UnresolvedTableOrView => found(either.multipartIdentifier)
    case _ => None
  }

  private def found(name: Seq[String]): Option[Either[CatalogExtView, LogicalPlan]] = name match {
    case CatalogAndIdentifier(catalog: CatalogExtCatalog, ident) => catalog.relation(ident).map {
      case view: CatalogExtView => Left(view)
      case table: Table => Right(ResolvedTable.create(catalog, ident, table))
    }
    case _ => None
  }
}

/** Plans commands that only views of this connector have. */
object ViewCommandStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ViewPartitionCommand(Views.Resolved(view), change, refusal) =>
      Seq(ViewPartitionExec(view.getOrElse(throw refusal), change))
    case ShowViewPartitions(view, spec, output) => Seq(ShowViewPartitionsExec(output, view, spec))
    case DescribeViewPartition(view, spec, extended, output) =>
      Seq(DescribeViewPartitionExec(output, view, spec, extended))
    case ShowCreateTable(Views.Resolved(Some(view)), _, output) if view.partitioned =>
      Seq(ShowCreatePartitionedViewExec(output, view))
    case other => Views.described(other).toSeq
  }
}
