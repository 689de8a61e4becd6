package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{ChosenFiles, DirectoryFiles, FileChoice, FilePaths, FooterJob, PlannedFiles}
import org.apache.spark.sql.catalogext.service.{ServiceException, StatisticsRequests}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.functions
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Counts the rows of files, from footers if the format has them, otherwise by reading. */
object FileCounts extends Logging {
  /**
   * The files that ANALYZE must read, in the partitions that the clauses select (all partitions without clauses): files
   * whose row count is unknown, and files without column statistics.
   */
  def uncounted(table: CatalogExtTable, clauses: Seq[Seq[KeyComparison]]): ChosenFiles = {
    val metadata = table.metadata
    val measures = hasFooters(metadata) && measuredColumns(table).nonEmpty
    val request = obj(Seq(
      "table_id" -> long(metadata.tableId), "version" -> long(metadata.version), "predicate" -> Null) ++
      // Skip partitions with a descriptor of their own, whose files have another format. Their rows stay uncounted.
      Option.when(metadata.descriptors.nonEmpty)("descriptor" -> long(0)) ++
      Option.when(measures)("unmeasured" -> bool(true)) ++
      PartitionClauses.fields(clauses): _*)
    val choose = new FileChoice {
      override def leaves(directory: DirectoryFiles): Boolean = {
        directory.retain(file => measures || directory.rowCount(file) < 0)
        directory.count > 0
      }
    }
    ServiceException.translating(table.client.stream("tables/plan", request)(PlannedFiles.read(_, choose)))
  }

  /**
   * Counts the rows of the files; returns an entry of `statistics/put` for each. Raises a runtime error that names a
   * missing file.
   */
  def count(session: SparkSession, table: CatalogExtTable, files: ChosenFiles): Iterator[JsonNode] =
    if (files.choice.files == 0) Iterator.empty
    else if (hasFooters(table.metadata)) ofFooters(session, table, files)
    else byReading(session, table, files)

  private def hasFooters(table: TableMetadata): Boolean = table.format == "parquet" || table.format == "orc"

  /** The columns for which statistics are computed: the first `write.statistics-columns` columns. */
  private def measuredColumns(of: CatalogExtTable): StructType = {
    val settings = ResolvedSettings.of("write", of.client, of.catalogName, of.metadata, CaseInsensitiveStringMap.empty(),
      SparkSession.active.sessionState.conf)
    val columns = of.metadata.columns.take(settings.long("write.statistics-columns").fold(Int.MaxValue)(_.toInt))
    PartitionColumns.plainSchema(StructType(columns))
  }

  private def ofFooters(session: SparkSession, of: CatalogExtTable, files: ChosenFiles): Iterator[JsonNode] = {
    val table = of.metadata
    val footers = FooterJob.of(session, of.catalogName, table, table.options, measuredColumns(of))
    val parts = footers.read(files)(_ => ())
    val changed = parts.map(_.footers.areIndexed.count(!_)).sum
    if (changed > 0) logWarning(s"$changed files of ${table.qualifiedName} have changed since the index last compared them " +
      s"with the store; ANALYZE leaves their rows unknown. Repair the table: MSCK REPAIR TABLE ${table.qualifiedName} SYNC " +
      "PARTITIONS")
    parts.iterator.flatMap(_.entries)
  }

  /** Counts rows by reading the whole table, for text files, which have no footer with a row count. */
  private def byReading(session: SparkSession, table: CatalogExtTable, files: ChosenFiles): Iterator[JsonNode] = {
    val relation = ColumnStatistics.relation(table).withMetadataColumns()
    val path = UnresolvedAttribute(Seq("_metadata", "file_path"))
    val paths = Project(Seq(Alias(path, "path")()), relation)
    val counts = Dataset.ofRows(session, paths).groupBy("path").agg(functions.count(functions.lit(1))).collect()
      .map(row => row.getString(0) -> row.getLong(1)).toMap
    for (in <- files.partitions; file <- (0 until in.count).iterator) yield {
      val path = in.status(file, in.directory(table.metadata.location)).getPath
      // The aggregation has no group for a file without rows.
      StatisticsRequests.file(
        in.name, in.path(file), in.size(file), in.modifiedMs(file), counts.getOrElse(FilePaths.inMetadataColumn(path), 0L),
        Null)
    }
  }
}
