package org.apache.spark.sql.catalogext.service

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.Json._

/** The requests `statistics/put`, by which ANALYZE and queries record what they have found in files. */
object StatisticsRequests {
  /** The contract's limit of one request. */
  val FilesAtOnce = 1000

  /**
   * The contract's entry of a file as it was planned.
   *
   * @param statistics by column; null where only the rows were counted
   */
  def file(
      partition: String, path: String, size: Long, modifiedMillis: Long, rows: Long, statistics: JsonNode): JsonNode = obj(
    "partition" -> text(partition), "path" -> text(path), "size" -> long(size), "modified_ms" -> long(modifiedMillis),
    "rows" -> long(rows), "statistics" -> statistics)

  def of(table: TableMetadata, files: Seq[JsonNode], more: (String, JsonNode)*): JsonNode = obj(Seq(
    "table_id" -> long(table.tableId), "version" -> long(table.version), "files" -> arr(files)) ++ more: _*)
}
