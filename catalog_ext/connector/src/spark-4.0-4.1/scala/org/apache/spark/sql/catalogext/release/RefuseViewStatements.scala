package org.apache.spark.sql.catalogext.release

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.CatalogExtCatalog
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.views.{CatalogExtView, ViewPartitionCommand}
import org.apache.spark.sql.catalyst.analysis.{CurrentNamespace, NoSuchViewException, UnresolvedAttribute,
  UnresolvedIdentifier, UnresolvedNamespace, UnresolvedTableOrView, UnresolvedView}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}

/**
 * Refuses view statements that Spark before 4.2 has for its own catalog only; the error names the release that supports
 * them.
 */
class RefuseViewStatements(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case change @ ViewPartitionCommand(view: UnresolvedView, _, _) => view.multipartIdentifier match {
      case CatalogAndIdentifier(catalog: CatalogExtCatalog, ident) => catalog.relation(ident) match {
        case Some(found: CatalogExtView) => change.copy(child = Views.Named(found))
        case _ => throw new NoSuchViewException(ident)
      }
      case _ => throw change.refusal
    }
    case other =>
      refuse(other)
      other
  }

  private def refuse(plan: LogicalPlan): Unit = plan match {
    case create: CreateView if isOurs(create.child) => refuse("CREATE VIEW")
    case drop: DropView if isOurs(drop.child) => refuse("DROP VIEW")
    case alter: AlterViewAs if isOurs(alter.child) => refuse("ALTER VIEW ... AS")
    case set: SetViewProperties if isOurs(set.child) => refuse("ALTER VIEW ... SET TBLPROPERTIES")
    case unset: UnsetViewProperties if isOurs(unset.child) => refuse("ALTER VIEW ... UNSET TBLPROPERTIES")
    case bind: AlterViewSchemaBinding if isOurs(bind.child) => refuse("ALTER VIEW ... WITH SCHEMA")
    case rename: RenameTable if rename.isView && isOurs(rename.child) => refuse("ALTER VIEW ... RENAME TO")
    case ShowViews(UnresolvedNamespace(CatalogAndNamespace(_: CatalogBase, _), _), _, _) => refuse("SHOW VIEWS")
    case ShowViews(CurrentNamespace, _, _) if catalogManager.currentCatalog.isInstanceOf[CatalogBase] => refuse("SHOW VIEWS")
    // Spark 4.0 parses DESCRIBE PROCEDURE as DESCRIBE of a column of a table named PROCEDURE.
    case describe: DescribeColumn => (describe.relation, describe.column) match {
      case (either: UnresolvedTableOrView, UnresolvedAttribute(name))
          if either.multipartIdentifier.map(_.toUpperCase(Locale.ROOT)) == Seq("PROCEDURE") && name.length == 3 &&
            catalogManager.isCatalogRegistered(name.head) && isOurs(name) =>
        throw ConnectorErrors.needsSpark("DESCRIBE PROCEDURE", "4.1")
      case _ =>
    }
    // For the table that `asTable` makes of a view, this would print a CREATE TABLE statement.
    case show: ShowCreateTable if isView(show.child) => refuse("SHOW CREATE TABLE of a view")
    case _ =>
  }

  private def isView(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedTableOrView(CatalogAndIdentifier(catalog: CatalogExtCatalog, ident), _, _) =>
      catalog.relation(ident).exists(_.isInstanceOf[CatalogExtView])
    case _ => false
  }

  private def refuse(statement: String): Nothing =
    throw ConnectorErrors.needsSpark(s"$statement in a catalog other than Spark's own", "4.2")

  // A temporary view belongs to Spark in any catalog, and its name has priority.
  private def isOurs(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedIdentifier(name, allowTemp) => !(allowTemp && isTemporary(name)) && isOurs(name)
    case view: UnresolvedView => !isTemporary(view.multipartIdentifier) && isOurs(view.multipartIdentifier)
    case either: UnresolvedTableOrView =>
      !isTemporary(either.multipartIdentifier) && isOurs(either.multipartIdentifier)
    case _ => false
  }

  private def isTemporary(name: Seq[String]): Boolean = catalogManager.v1SessionCatalog.isTempView(name)

  private def isOurs(name: Seq[String]): Boolean = name match {
    case CatalogAndIdentifier(_: CatalogBase, _) => true
    case _ => false
  }
}
