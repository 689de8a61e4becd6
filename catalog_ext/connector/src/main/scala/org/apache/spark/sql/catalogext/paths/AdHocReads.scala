package org.apache.spark.sql.catalogext.paths

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.release.{SearchPath, TableFunctions}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedRelation, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.{Alias, Cast, Expression, NamedArgumentExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.MapData
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}
import org.apache.spark.sql.execution.command.DescribeRelationJsonCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{DataType, MapType, StringType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * Resolves reads of paths with arguments that Spark does not pass to a catalog: `lake.files('...')`, because catalogs
 * have no table functions, and a path with options, because Spark adds options after it has loaded the table.
 */
class AdHocReads(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  override protected lazy val catalogManager: CatalogManager =
    session.asInstanceOf[classic.SparkSession].sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case UnresolvedTableValuedFunction(Files(catalog), arguments, false) =>
      val (path, options) = new FilesArguments(session, s"${catalog.name()}.${AdHocReads.Files}").read(arguments)
      relation(catalog, path, options)
    case UnresolvedRelation(Path(catalog, path), options, false)
        if !options.isEmpty && !options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES) =>
      SubqueryAlias(path, relation(catalog, path, options))
  }

  private def relation(catalog: CatalogBase, path: String, options: CaseInsensitiveStringMap): LogicalPlan =
    DataSourceV2Relation.create(catalog.paths.load(path, options), Some(catalog), None, options)

  private object Path {
    def unapply(name: Seq[String]): Option[(CatalogBase, String)] =
      SearchPath.candidates(catalogManager, name).collectFirst {
        case CatalogAndIdentifier(catalog: CatalogBase, ident) if catalog.paths.named(ident) => (catalog, ident.name())
      }
  }

  private object Files {
    def unapply(name: Seq[String]): Option[CatalogBase] = TableFunctions.parts(name) match {
      case Seq(catalog, AdHocReads.FilesName()) => ours(catalog)
      case Seq(AdHocReads.FilesName()) =>
        (catalogManager.currentCatalog.name() +: SearchPath.entries(catalogManager).map(_.head))
          .filter(_ != CatalogManager.SESSION_CATALOG_NAME).flatMap(ours(_)).headOption
      case _ => None
    }

    private def ours(catalog: String): Option[CatalogBase] =
      Option.when(catalogManager.isCatalogRegistered(catalog))(catalogManager.catalog(catalog))
        .collect { case ours: CatalogBase => ours }
  }
}

object AdHocReads {
  val Files = "files"

  private object FilesName {
    def unapply(name: String): Boolean = name.toLowerCase(Locale.ROOT) == Files
  }
}

/** The arguments of `files` (path, format, options, schema), by position or by name. */
private class FilesArguments(session: SparkSession, function: String) {
  private val textToText = MapType(StringType, StringType)
  private val parameters: Seq[(String, DataType)] =
    Seq("path" -> StringType, AdHocPaths.Format -> StringType, "options" -> textToText, AdHocPaths.Schema -> StringType)

  /** The path, and all other arguments as options of the read. */
  def read(arguments: Seq[Expression]): (String, CaseInsensitiveStringMap) = {
    val values = constants(assigned(arguments))
    val path = values.get("path").collect { case text: UTF8String => text.toString }.getOrElse(
      throw wrong("has no path: give it first, as text, such as 's3a://bucket/data/year=*/*.parquet'"))
    val options = values.get("options").collect { case map: MapData => entries(map) }.getOrElse(Map.empty)
    val named = Seq(AdHocPaths.Format, AdHocPaths.Schema).flatMap(name =>
      values.get(name).collect { case text: UTF8String => name -> text.toString })
    (path, new CaseInsensitiveStringMap((options ++ named).asJava))
  }

  private def assigned(arguments: Seq[Expression]): Map[String, Expression] = {
    val (named, positional) = arguments.partition(_.isInstanceOf[NamedArgumentExpression])
    if (positional.length > parameters.length || arguments.drop(positional.length) != named) throw wrong(
      s"takes at most ${parameters.length} arguments (${parameters.map(_._1).mkString(", ")}), and named ones last")
    val byPosition = parameters.map(_._1).zip(positional)
    val byName = named.map { case NamedArgumentExpression(key, value) => key.toLowerCase(Locale.ROOT) -> value }
    byName.map(_._1).find(name => !parameters.exists(_._1 == name)).foreach(name => throw wrong(
      s"has no parameter '$name'; it has ${parameters.map(_._1).mkString(", ")}"))
    (byPosition ++ byName).groupBy(_._1).collectFirst { case (name, several) if several.length > 1 =>
      throw wrong(s"is given '$name' twice")
    }
    (byPosition ++ byName).toMap
  }

  /**
   * The values of the arguments, which must be constants. They are analyzed apart from the query, because they
   * determine the columns of the path's table.
   */
  private def constants(arguments: Map[String, Expression]): Map[String, Any] = {
    val ordered = parameters.collect { case (name, to) if arguments.contains(name) => name -> Cast(arguments(name), to) }
    val project = Project(ordered.map { case (name, value) => Alias(value, name)() }, OneRowRelation())
    val analyzed = session.asInstanceOf[classic.SparkSession].sessionState.executePlan(project).analyzed
    analyzed.expressions.collect { case Alias(value, name) =>
      if (!value.foldable) throw wrong(s"takes constants only, and '$name' is ${value.sql}")
      name -> value.eval()
    }.toMap
  }

  private def entries(map: MapData): Map[String, String] = {
    val keys = map.keyArray().toObjectArray(StringType).map(_.toString)
    val values = map.valueArray().toObjectArray(StringType)
    keys.zip(values).collect { case (key, value) if value != null => key -> value.toString }.toMap
  }

  private def wrong(what: String): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.InvalidArguments, s"The function $function $what.", Map("function" -> function))
}

/** Refuses commands that would write to a path, before Spark reports a missing table capability. */
class RefuseAdHocChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case _: DescribeRelation | _: DescribeRelationJsonCommand | _: DescribeColumn | _: ShowColumns | _: ShowTableProperties | _: ShowCreateTable |
          _: RefreshTable =>
      case command: Command => command.children.foreach {
        case ResolvedTable(_, _, table: AdHocTable, _) => throw AdHocPaths.readOnly(table.catalogName, table.metadata.name)
        case _ =>
      }
      case _ =>
    }
    plan
  }
}
