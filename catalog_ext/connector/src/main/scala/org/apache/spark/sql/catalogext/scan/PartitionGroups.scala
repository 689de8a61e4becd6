package org.apache.spark.sql.catalogext.scan

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.{PartitionValues, TableMetadata}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow

/**
 * Partitions with equal values of some keys, which `values` has; those of the other keys are of any one of them.
 *
 * @param partitions whole ones; 0 for some files of one
 * @param rows none where unknown
 * @param bounds of the one file that this stands for, until the next one is read
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

/** What takes groups of partitions as they come: there may be one for each partition, too many to be held. */
trait GroupConsumer {
  /** Whether more are wanted. */
  def take(group: PartitionGroup): Boolean
}

/** Reads `partitions/groups`. */
object PartitionGroups {
  /** What is asked of the groups, in the contract's words. */
  val Each = "each"
  val Values = "values"
  val Rows = "rows"
  val Presence = "presence"
  val Least = "least"
  val Greatest = "greatest"

  /**
   * What `into` makes of the groups of a table at its version, one by one, until it wants no more of them. A question
   * that is asked again, as its answer broke off, begins with another `into`.
   *
   * @param keys in the table's own spelling
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
