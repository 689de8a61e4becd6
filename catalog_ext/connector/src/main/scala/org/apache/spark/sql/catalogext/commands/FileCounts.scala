package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{CatalogExtScanBuilder, ChosenFiles, DirectoryFiles, FileChoice, FilePaths,
  FooterJob, PlannedFileIndex, PlannedFiles, SharedFiles}
import org.apache.spark.sql.catalogext.service.{ServiceException, StatisticsRequests}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.read.ScanBuilder
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

  /** Counts rows by reading the files, for text files, which have no footer with a row count. */
  private def byReading(session: SparkSession, table: CatalogExtTable, files: ChosenFiles): Iterator[JsonNode] = {
    // One job for so many batches limits the number of rows that the driver collects at once. Run all jobs before the
    // first entry is sent: if a file cannot be read, ANALYZE must not record the counts of others.
    val groups = files.grouped(BatchesOfJob)
    val counts = groups.map(counted(session, table, _))
    for {
      (group, rows) <- groups.iterator.zip(counts)
      ((in, file), i) <- group.files.zipWithIndex
    } yield StatisticsRequests.file(in.name, in.path(file), in.size(file), in.modifiedMs(file), rows(i), Null)
  }

  // Each batch has 8,192 files or more.
  private val BatchesOfJob = 8

  /** The row count of each file, in the order of the files. */
  private def counted(session: SparkSession, table: CatalogExtTable, files: ChosenFiles): Array[Long] = {
    val relation = ColumnStatistics.relation(new CountedTable(table, files)).withMetadataColumns()
    val path = UnresolvedAttribute(Seq("_metadata", "file_path"))
    val paths = Project(Seq(Alias(path, "path")()), relation)
    val counts = Dataset.ofRows(session, paths).groupBy("path").agg(functions.count(functions.lit(1))).collect()
      .map(row => row.getString(0) -> row.getLong(1)).toMap
    val locations = files.files.map { case (in, file) =>
      FilePaths.inMetadataColumn(in.status(file, in.directory(table.metadata.location)).getPath)
    }.toArray
    // Partitions may share a directory: a file of it is read once for each of them.
    val reads = locations.groupMapReduce(identity)(_ => 1)(_ + _)
    // The aggregation has no group for a file without rows.
    locations.map(path => counts.getOrElse(path, 0L) / reads(path))
  }
}

/** A table of which only the given files are read. Partitions with descriptors of their own must not be among them. */
private class CountedTable(of: CatalogExtTable, chosen: ChosenFiles)
  extends CatalogExtTable(of.catalogName, of.metadata.copy(descriptors = Nil), of.client, virtualColumnsShown = false) {

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    val session = SparkSession.active
    new CatalogExtScanBuilder(session, client, catalogName, metadata, options, (keys, resolved) =>
      new PlannedFileIndex(session, client, catalogName, metadata, keys, resolved, new SharedFiles, Some(0L)) {
        override protected def planned(filters: Seq[Expression]): ChosenFiles = chosen
      })
  }

  // Spark must not read a cached table instead.
  override def equals(other: Any): Boolean = other match {
    case that: CountedTable => this eq that
    case _ => false
  }

  override def hashCode(): Int = System.identityHashCode(this)
}
