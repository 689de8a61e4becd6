package org.apache.spark.sql.catalogext.views

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns}
import org.apache.spark.sql.catalogext.release.Views.View
import org.apache.spark.sql.catalogext.scan.{CatalogExtScan, IndexAnswers}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.catalog.{ExternalCatalogUtils, HiveTableRelation}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.types.StructField
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The tables and partitions that a view's rows are computed from. */
object ViewDependencies {
  /** The tables of the catalog that a view's query reads, directly or through other views, as `namespace.table`. */
  def tablesOf(catalogName: String, view: View): Seq[String] = {
    // Analyze the query in the catalog and namespace in which the view was written, as the view itself is analyzed.
    val session = SparkSession.active.cloneSession()
    val manager = session.sessionState.catalogManager
    Option(view.currentCatalog).filter(_.nonEmpty).foreach(manager.setCurrentCatalog)
    Option(view.currentNamespace).filter(_.nonEmpty).foreach(manager.setCurrentNamespace)
    val plan = session.sessionState.sqlParser.parsePlan(view.queryText)
    session.sessionState.executePlan(plan).analyzed.collectWithSubqueries {
      case relation: DataSourceV2Relation => relation.table match {
        case table: CatalogExtTable if table.catalogName == catalogName => Some(table.metadata.qualifiedName)
        case _ => None
      }
    }.flatten.distinct
  }

  /**
   * The sources of the query `SELECT * FROM view WHERE column = 'value' AND …` after optimization: tables of this
   * connector with the partitions that their scans select, and other relations by name. No data is read. Without a
   * partition column in the clause nothing is planned; the service checks all other errors of a clause. Strict mode
   * applies as for the query.
   *
   * @param values the literals of a PARTITION clause; null for NULL
   */
  def of(session: SparkSession, view: CatalogExtView, values: Seq[(String, String)]): Seq[JsonNode] = {
    val conditions = for {
      column <- view.metadata.partitionColumns.toSeq
      (_, value) <- values.find(_._1.equalsIgnoreCase(column.name))
    } yield condition(column, value)
    if (conditions.isEmpty) Nil else of(session, view, conditions.mkString(" AND "))
  }

  private def condition(column: StructField, value: String): String = {
    val name = QuotingUtils.quoteIdentifier(column.name)
    if (value == null || value == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) s"$name IS NULL"
    else s"$name = try_cast(${Literal(value).sql} AS ${PartitionColumns.plain(column.dataType).sql})"
  }

  private def of(session: SparkSession, view: CatalogExtView, condition: String): Seq[JsonNode] = {
    val name = Seq(view.catalogName, view.metadata.namespace, view.metadata.name).map(QuotingUtils.quoteIdentifier)
    val query = s"SELECT * FROM ${name.mkString(".")} WHERE $condition"
    // Optimize the plan here. In the plan of a query execution, cached data would hide the sources.
    val analyzed = session.sessionState.executePlan(session.sessionState.sqlParser.parsePlan(query)).analyzed
    read(session.sessionState.optimizer.execute(scanned(analyzed)))
  }

  /**
   * The plan with full scans in place of answers of the index and of limits, so that it contains all files of the
   * query.
   */
  private def scanned(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueries {
    case relation: DataSourceV2Relation if relation.table.isInstanceOf[CatalogExtTable] =>
      val options = new java.util.HashMap[String, String](relation.options.asCaseSensitiveMap())
      options.put(IndexAnswers.Setting, "false")
      relation.copy(options = new CaseInsensitiveStringMap(options))
  }

  private def read(plan: LogicalPlan): Seq[JsonNode] = {
    val found = mutable.LinkedHashMap.empty[String, mutable.LinkedHashSet[String]]
    def add(relation: String, partitions: Seq[String]): Unit =
      found.getOrElseUpdate(relation, mutable.LinkedHashSet.empty) ++= partitions
    plan.collectWithSubqueries {
      case scanned: DataSourceV2ScanRelation => scanned.scan match {
        case scan: CatalogExtScan =>
          scan.checkStrict()
          val partitions = scan.index.partitionNames.filter(_.nonEmpty)
          add(s"${scan.index.catalogName}.${scan.index.table.qualifiedName}", partitions)
        case _ => add(scanned.relation.name, Nil)
      }
      case relation: DataSourceV2Relation => add(relation.name, Nil)
      case relation: LogicalRelation => relation.catalogTable.foreach(table => add(table.qualifiedName, Nil))
      case relation: HiveTableRelation => add(relation.tableMeta.qualifiedName, Nil)
    }
    found.map { case (relation, partitions) =>
      obj("relation" -> text(relation), "partitions" -> arr(partitions.map(text(_))))
    }.toSeq
  }
}
