package org.apache.spark.sql.catalogext.commands

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ServiceException, StatisticsRequests}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec
import org.apache.spark.unsafe.types.UTF8String

/** ANALYZE TABLE ... COMPUTE STATISTICS [NOSCAN]. In the partition spec, a key without a value matches all values. */
case class AnalyzeTableExec(table: CatalogExtTable, spec: Map[String, Option[String]], noScan: Boolean)
  extends LeafV2CommandExec {

  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    TableAnalysis.analyze(session, table, spec, noScan)
    Nil
  }
}

/** ANALYZE TABLES IN ...: analyzes each table in turn. */
case class AnalyzeTablesExec(catalog: TableCatalog, namespace: Seq[String], noScan: Boolean) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    catalog.listTables(namespace.toArray).foreach { ident =>
      EachTable.analyze(s"${catalog.name()}.$ident") {
        catalog.loadTable(ident) match {
          case table: CatalogExtTable => TableAnalysis.analyze(session, table, Map.empty, noScan)
          case _ =>
        }
      }
    }
    Nil
  }
}

/** The tables of ANALYZE TABLES. */
private[catalogext] object EachTable extends Logging {
  /** Analyzes a table by `body`. As in Spark, a table that cannot be analyzed is logged and does not stop the others. */
  def analyze(name: => String)(body: => Unit): Unit =
    try body catch {
      case NonFatal(e) => logWarning(s"ANALYZE TABLES has not analyzed table $name: ${e.getMessage}", e)
    }
}

/** ANALYZE TABLE ... COMPUTE STATISTICS FOR COLUMNS ... | FOR ALL COLUMNS. */
case class AnalyzeColumnsExec(table: CatalogExtTable, names: Option[Seq[String]]) extends LeafV2CommandExec {
  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    // Count the rows too, because the optimizer can hardly use column statistics without a row count.
    TableAnalysis.analyze(session, table, Map.empty, noScan = false)
    TableAnalysis.put(table, Nil, columns = ColumnStatistics.compute(session, table, names))
    Nil
  }
}

/**
 * DESCRIBE EXTENDED of a column. Spark's own command prints values in their internal form, such as 19723 for a date.
 */
case class DescribeColumnExec(output: Seq[Attribute], table: CatalogExtTable, column: Attribute)
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val found = table.metadata.statistics.getOrElse(column.name, Map.empty)
    // Take the type from the metadata: the attribute of a CHAR or VARCHAR column has the type STRING.
    val field = (table.metadata.columns ++ table.metadata.partitionColumns).find(_.name == column.name)
    val shown = Seq("min" -> "min", "max" -> "max", "num_nulls" -> "nullCount", "distinct_count" -> "distinctCount",
      "avg_col_len" -> "avgLen", "max_col_len" -> "maxLen")
    (Seq(
      "col_name" -> column.name,
      "data_type" -> field.fold(column.dataType)(_.dataType).catalogString,
      "comment" -> field.flatMap(_.getComment()).getOrElse("NULL")) ++
      shown.map { case (title, statistic) => title -> found.getOrElse(statistic, "NULL") })
      .map { case (name, value) => InternalRow(UTF8String.fromString(name), UTF8String.fromString(value)) }
  }
}

/** Computes the statistics of ANALYZE and sends them to the service. */
private object TableAnalysis {
  def analyze(
      session: SparkSession, table: CatalogExtTable, spec: Map[String, Option[String]], noScan: Boolean): Unit = {
    val clauses = if (spec.isEmpty) Nil else Seq(PartitionClauses.some(spec))
    if (!noScan) {
      val counted = FileCounts.count(session, table, FileCounts.uncounted(table, clauses))
      counted.grouped(StatisticsRequests.FilesAtOnce).foreach(put(table, _))
    }
    put(table, Nil, clauses = clauses)
  }

  def put(
      table: CatalogExtTable,
      files: Seq[JsonNode],
      columns: JsonNode = Null,
      clauses: Seq[Seq[KeyComparison]] = Nil): Unit = {
    val request = StatisticsRequests.of(
      table.metadata, files, Seq("columns" -> columns) ++ PartitionClauses.fields(clauses): _*)
    ServiceException.translating(table.client.call("statistics/put", request, limited = false))
  }
}
