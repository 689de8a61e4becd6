package org.apache.spark.sql.catalogext.commands

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceException


/** The contract's partition commands: one request a statement, which the service does wholly or not at all. */
class PartitionRequests(table: CatalogExtTable) {
  /** @param partitions full specs and, where they have one, their locations */
  def add(partitions: Seq[(JsonNode, Option[String])], ifNotExists: Boolean): Unit = send("add",
    "partitions" -> arr(partitions.map { case (spec, location) => obj("spec" -> spec, "location" -> text(location)) }),
    "if_not_exists" -> bool(ifNotExists))

  /** @param predicates one for each PARTITION clause */
  def drop(predicates: Seq[JsonNode], ifExists: Boolean, purge: Boolean): Unit = send("drop",
    "predicates" -> arr(predicates), "if_exists" -> bool(ifExists), "purge" -> bool(purge))

  def rename(from: JsonNode, to: JsonNode): Unit = send("rename", "from" -> from, "to" -> to)

  def relocate(spec: JsonNode, location: String): Unit =
    send("relocate", "spec" -> spec, "location" -> text(location))

  def exchange(source: CatalogExtTable, specs: Seq[JsonNode]): Unit = send("exchange",
    "source_id" -> long(source.metadata.tableId), "source_version" -> long(source.metadata.version),
    "specs" -> arr(specs))

  private def send(command: String, fields: (String, JsonNode)*): Unit = {
    val request = Seq(
      "table_id" -> long(table.metadata.tableId), "version" -> long(table.metadata.version)) ++ fields
    // Files may move, and that takes as long as it takes.
    ServiceException.translating(table.client.call(s"partitions/$command", obj(request: _*), limited = false))
  }
}
