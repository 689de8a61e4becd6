package org.apache.spark.sql.catalogext.scan

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.{PartitionValues, TableMetadata}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Partitions with equal values of the requested keys. `values` has these values; all other keys have those of an
 * arbitrary partition.
 *
 * @param partitions number of complete partitions; 0 if the group is a part of one partition's files
 * @param rows the number of rows; None if unknown
 * @param bounds the bounds of the file, if the group is a single file; valid until the next group is read
 */
case class PartitionGroup(
    id: Long,
    name: String,
    values: InternalRow,
    partitions: Long,
    files: Long,
    bytes: Long,
    rows: Option[Long],
    bounds: Option[FileBounds] = None)

/** Consumes groups of partitions one at a time. There may be one group for each partition, too many to be kept. */
trait GroupConsumer {
  /** Processes a group. Returns whether the consumer needs more groups. */
  def take(group: PartitionGroup): Boolean
}

/** Reads the operation `partitions/groups`. */
object PartitionGroups {
  /** Kinds of groups, with the contract's names. */
  val Each = "each"
  val Values = "values"
  val Rows = "rows"
  val Presence = "presence"
  val Least = "least"
  val Greatest = "greatest"

  /**
   * Passes the groups of a table at its version to a consumer made by `into`, until the consumer needs no more. If the
   * request is repeated after a broken answer, it starts with a new consumer.
   *
   * @param keys the names of the grouping keys, in the table's own spelling
   */
  def fetch[T <: GroupConsumer](
      client: ServiceClient,
      table: TableMetadata,
      values: PartitionValues,
      predicate: Option[JsonNode],
      keys: Seq[String],
      wanted: String,
      among: JsonNode = Null,
      staleness: JsonNode = Null)(into: => T): T = {
    val request = obj(
      "table_id" -> long(table.tableId),
      "version" -> long(table.version),
      "predicate" -> predicate.getOrElse(Null),
      "keys" -> arr(keys.map(text(_: String))),
      "wanted" -> text(wanted),
      "among" -> among,
      "staleness" -> staleness)
    ServiceException.translating(client.stream("partitions/groups", request) { input =>
      val consumer = into
      ArrowRows.foreachBatchWhile(input)(batch => read(batch, values).forall(consumer.take))
      consumer
    })
  }

  private def read(batch: VectorSchemaRoot, values: PartitionValues): Iterator[PartitionGroup] = {
    def numbers(name: String) = batch.getVector(name).asInstanceOf[BigIntVector]
    val names = batch.getVector("partition").asInstanceOf[VarCharVector]
    val (ids, partitions) = (numbers("partition_id"), numbers("partitions"))
    val (files, bytes, rows) = (numbers("files"), numbers("bytes"), numbers("rows"))
    (0 until batch.getRowCount).iterator.filter(partitions.get(_) > 0).map { i =>
      val name = names.getObject(i).toString
      PartitionGroup(
        ids.get(i), name, values.parse(name), partitions.get(i), files.get(i), bytes.get(i),
        Option.when(!rows.isNull(i))(rows.get(i)))
    }
  }
}
