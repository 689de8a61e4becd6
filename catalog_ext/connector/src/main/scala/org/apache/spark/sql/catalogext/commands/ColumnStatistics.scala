package org.apache.spark.sql.catalogext.commands

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns, TableMetadata}
import org.apache.spark.sql.catalogext.release.Statistics
import org.apache.spark.sql.catalogext.scan.{ReadOptions, StrictMode}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.catalog.{CatalogColumnStat, CatalogStatistics}
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.expressions.NamedReference
import org.apache.spark.sql.connector.read.colstats.{ColumnStatistics => V2ColumnStatistics}
import org.apache.spark.sql.execution.command.CommandUtils
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Column statistics: ANALYZE ... FOR COLUMNS computes them, and Spark's optimizer gets them from a scan. */
object ColumnStatistics {
  /** Internal option that marks the read of ANALYZE, which always reads the whole table. */
  val Analyze = "catalog-ext.analyze"

  /**
   * The statistics for the optimizer, scaled to `rows` selected rows: NULL counts are reduced in proportion, and
   * distinct counts are at most the number of rows. Empty for columns without statistics. Partition columns of a
   * filtered table have none, because the filter has changed their distribution.
   */
  def of(table: TableMetadata, rows: Option[Long]): util.Map[NamedReference, V2ColumnStatistics] =
    (table.totals.rows, rows) match {
      case (Some(all), Some(some)) if some >= all =>
        known(table, (whole: CatalogColumnStat) => whole, table.partitionColumns)
      case (Some(all), Some(some)) =>
        known(table, (whole: CatalogColumnStat) => share(whole, some, all), new StructType)
      case _ => util.Map.of()
    }

  private def share(whole: CatalogColumnStat, some: Long, all: Long): CatalogColumnStat = whole.copy(
    distinctCount = whole.distinctCount.map(_.min(some)),
    // Rounded down: with as many NULLs as rows, the optimizer would assume that all values are NULL.
    nullCount = whole.nullCount.map(count => count * some / all))

  private def known(
      table: TableMetadata,
      shared: CatalogColumnStat => CatalogColumnStat,
      keys: StructType): util.Map[NamedReference, V2ColumnStatistics] = {
    val schema = PartitionColumns.plainSchema(StructType(table.columns ++ keys))
    val found = schema.fieldNames.flatMap(name => table.statistics.get(name).flatMap { texts =>
      val own = texts.map { case (statistic, value) => s"$name.$statistic" -> value }
      CatalogColumnStat.fromMap(table.qualifiedName, name, own).map(whole => name -> shared(whole))
    }).toMap
    if (found.isEmpty) util.Map.of()
    else Statistics.ofColumns(CatalogStatistics(table.totals.bytes, table.totals.rows.map(BigInt(_)), found), schema)
  }

  /**
   * Computes the statistics of the named columns, or of all, by one Spark aggregation; returns the field `columns` of
   * `statistics/put`.
   */
  def compute(session: SparkSession, table: CatalogExtTable, names: Option[Seq[String]]): JsonNode = {
    val plain = relation(table)
    // Virtual partition columns are included only if they are named.
    val source = if (names.exists(_.exists(column(session, plain.output, _).isEmpty))) plain.withMetadataColumns() else plain
    val columns = names.fold(plain.output.filter(a => supports(a.dataType)))(_.map { name =>
      val found = column(session, source.output, name).getOrElse(throw ConnectorErrors.analysis(
        ConnectorErrors.ColumnNotFound, s"Table ${table.name()} has no column '$name'; its columns are " +
          s"${plain.output.map(_.name).mkString(", ")}.", Map("table" -> table.name(), "column" -> name)))
      if (!supports(found.dataType)) throw ConnectorErrors.notSupported(
        s"ANALYZE TABLE ${table.name()} FOR COLUMNS $name: there are no statistics of ${found.dataType.sql} columns. " +
          "Leave it out, or say FOR ALL COLUMNS, which does.")
      found
    })
    val (_, statistics) = CommandUtils.computeColumnStats(session, source, columns)
    obj(statistics.toSeq.map { case (attribute, found) =>
      val texts = found.copy(histogram = None).toCatalogColumnStat(attribute.name, attribute.dataType).toMap(attribute.name)
      attribute.name -> map(texts.map { case (key, value) => key.stripPrefix(s"${attribute.name}.") -> value })
    }: _*)
  }

  /** The relation of the table at the loaded version, for ANALYZE: no setting leaves files out. */
  def relation(table: CatalogExtTable): DataSourceV2Relation = {
    // Strict mode does not apply to ANALYZE of a whole table.
    val options = new CaseInsensitiveStringMap(
      Map(Analyze -> "true", ReadOptions.MissingFiles -> "error", StrictMode.Check -> "false").asJava)
    DataSourceV2Relation.create(table, None, None).copy(options = options)
  }

  private def column(session: SparkSession, among: Seq[AttributeReference], name: String): Option[AttributeReference] =
    among.find(attribute => session.sessionState.conf.resolver(attribute.name, name))

  private def supports(dataType: DataType): Boolean = dataType match {
    case _: IntegralType | _: DecimalType | DoubleType | FloatType | BooleanType | BinaryType | DateType |
        TimestampType | TimestampNTZType => true
    case string: StringType => string.isUTF8BinaryCollation
    case _ => false
  }
}
