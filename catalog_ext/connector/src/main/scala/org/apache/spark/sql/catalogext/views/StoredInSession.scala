package org.apache.spark.sql.catalogext.views

import scala.util.control.NonFatal

import org.apache.spark.sql.catalogext.CatalogExtCatalog
import org.apache.spark.sql.catalyst.analysis.{FunctionAlreadyExistsException, ResolvedIdentifier, SchemaEvolution,
  SchemaTypeEvolution}
import org.apache.spark.sql.catalyst.catalog.{CatalogFunction, CatalogTable, CatalogTableType, ExternalCatalog,
  SessionCatalog, SQLFunction, UserDefinedFunction}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, View}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.{CatalystIdentifier, FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog}
import org.apache.spark.sql.execution.command.{AlterTableSetPropertiesCommand, ExecutedCommandExec,
  LeafRunnableCommand, RunnableCommand}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.{classic, Row, SparkSession}

/**
 * Removes the settings of catalog-ext from the views and SQL functions that Spark stores in the session catalog.
 *
 * Spark stores every known setting of the session, and cannot exclude any. So the command runs unchanged, and its
 * result is altered immediately.
 */
object StoredInSession extends SparkStrategy {
  /** The commands that store settings, by class name, because some Spark releases lack some of these classes. */
  private val Storing = Set("CreateViewCommand", "AlterViewAsCommand", "AlterViewSchemaBindingCommand",
    "CreateMetricViewCommand", "AlterMetricViewCommand", "CreateSQLFunctionCommand")

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case command: RunnableCommand if Storing(command.getClass.getSimpleName) => cleaned(command)
    // ALTER VIEW … SET TBLPROPERTIES stores no settings, but the view may have some from before: with this rule a user
    // can remove them.
    case command: AlterTableSetPropertiesCommand if command.isView => cleaned(command)
    case _ => Nil
  }

  private def cleaned(command: RunnableCommand): Seq[SparkPlan] = Seq(ExecutedCommandExec(StoreWithoutOurs(command)))
}

/** Runs a Spark command that stores a view or a function, and removes the settings of catalog-ext from the result. */
case class StoreWithoutOurs(command: RunnableCommand) extends LeafRunnableCommand {
  override def nodeName: String = command.nodeName

  override def run(session: SparkSession): Seq[Row] = {
    val state = session.asInstanceOf[classic.SparkSession].sessionState
    val rows = command.run(session)
    named.foreach {
      case name: TableIdentifier => cleanView(state.catalog, name)
      case name: FunctionIdentifier => cleanFunction(state.catalog, state.sqlParser, name)
    }
    rows
  }

  private def cleanView(catalog: SessionCatalog, name: TableIdentifier): Unit =
    if (!catalog.isTempView(name) && catalog.tableExists(name)) {
      val stored = catalog.getTableMetadata(name)
      val kept = CapturedSettings.others(stored.properties, CatalogTable.VIEW_SQL_CONFIG_PREFIX)
      if (stored.tableType == CatalogTableType.VIEW && kept.size < stored.properties.size) {
        catalog.alterTable(stored.copy(properties = kept))
      }
    }

  /**
   * Removes the settings of catalog-ext from a SQL function: drops it and creates it again, because Hive's metastore
   * cannot alter a function's resources, in which Spark stores the properties.
   */
  private def cleanFunction(catalog: SessionCatalog, parser: ParserInterface, name: FunctionIdentifier): Unit =
    for (database <- name.database if catalog.isPersistentFunction(name)) {
      val stored = catalog.externalCatalog.getFunction(database, name.funcName)
      if (SQLFunction.isSQLFunction(stored.className)) {
        val function = SQLFunction.fromCatalogFunction(stored, parser)
        val kept = CapturedSettings.others(function.properties, UserDefinedFunction.SQL_CONFIG_PREFIX)
        if (kept.size < function.properties.size) {
          catalog.externalCatalog.dropFunction(database, name.funcName)
          restoring(catalog.externalCatalog, database, stored) {
            catalog.externalCatalog.createFunction(database, function.copy(properties = kept).toCatalogFunction)
          }
        }
      }
    }

  /** Recreates a dropped function. If that fails, the old function is restored and the statement fails. */
  private def restoring(catalog: ExternalCatalog, database: String, dropped: CatalogFunction)(make: => Unit): Unit =
    try make catch {
      case NonFatal(cause) =>
        val isKept = try {
          catalog.createFunction(database, dropped)
          true
        } catch {
          case _: FunctionAlreadyExistsException => true
          case NonFatal(again) =>
            cause.addSuppressed(again)
            false
        }
        throw ViewErrors.functionNotStored(dropped.identifier.unquotedString, isKept, cause)
    }

  /** The names of views and functions that the command, or its child, stores. */
  private def named: Seq[CatalystIdentifier] = command.productIterator.toSeq.flatMap {
    case name: TableIdentifier => Some(name)
    case name: FunctionIdentifier => Some(name)
    case ResolvedIdentifier(catalog, Named(database, table)) =>
      Some(TableIdentifier(table, Some(database), Some(catalog.name())))
    case _ => None
  }

  private object Named {
    def unapply(ident: Identifier): Option[(String, String)] =
      Option.when(ident.namespace().length == 1)((ident.namespace().head, ident.name()))
  }
}

/**
 * The session's settings that Spark stores with a view or a SQL function, to reproduce its analysis later.
 *
 * A setting that names a class of this jar must not be stored: a session without the jar would try to load the class
 * when it reads the view, and fail.
 */
object CapturedSettings {
  private val Package = classOf[org.apache.spark.sql.catalogext.CatalogExtCatalog].getPackageName
  private val Catalog = "spark.sql.catalog."

  /** The settings without those of catalog-ext; `prefix` precedes each name. */
  def others(settings: Map[String, String], prefix: String): Map[String, String] =
    settings.filterNot { case (key, value) => key.startsWith(prefix) && isOurs(key.stripPrefix(prefix), value) }

  private def isOurs(key: String, value: String): Boolean =
    value.split(',').exists(_.trim.startsWith(s"$Package.")) ||
      (key == SQLConf.DEFAULT_CATALOG.key && isCatalogOfOurs(value)) ||
      (key.startsWith(Catalog) && isCatalogOfOurs(key.stripPrefix(Catalog).takeWhile(_ != '.')))

  private def isCatalogOfOurs(name: String): Boolean =
    SQLConf.get.getConfString(s"$Catalog$name", "").startsWith(s"$Package.")
}

/**
 * Views WITH SCHEMA EVOLUTION and TYPE EVOLUTION in catalogs of this connector have the present columns of their query.
 *
 * If the stored columns differ, Spark would alter the view while reading it, always in its own session catalog, which
 * does not have the view. So queries get the view with the new columns from this rule, and the stored definition is
 * unchanged.
 */
class EvolvingViews(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case view: View if view.child.resolved && follows(view) && view.desc.schema != view.child.schema && isOurs(view) =>
      view.copy(desc = view.desc.copy(schema = view.child.schema))
  }

  private def follows(view: View): Boolean =
    !view.isTempView && (view.desc.viewSchemaMode match {
      case SchemaEvolution | SchemaTypeEvolution => true
      case _ => false
    })

  private def isOurs(view: View): Boolean = view.desc.identifier.catalog.exists { name =>
    catalogManager.isCatalogRegistered(name) && catalogManager.catalog(name).isInstanceOf[CatalogExtCatalog]
  }
}
