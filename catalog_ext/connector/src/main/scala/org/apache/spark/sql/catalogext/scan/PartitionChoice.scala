package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{PartitionValues, TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * The partitions that filters choose which no predicate of the contract says. The service gives their values, a row for
 * each of one key and otherwise one for each partition, and Spark's own expressions are evaluated on those, so that only
 * the files of what is left are asked for.
 *
 * @param keys the partition columns as Spark's readers see them, in the table's order
 */
class PartitionChoice(client: ServiceClient, table: TableMetadata, keys: StructType, values: () => PartitionValues) {
  /**
   * The field `among` of the requests for files: null where there is nothing to leave out by it.
   *
   * @param predicate what the contract says of all filters
   * @param left those that it does not say exactly, of keys alone
   */
  def among(predicate: Option[JsonNode], left: Seq[Expression]): JsonNode = {
    val (ofOne, ofSeveral) = left.groupBy(positions).partition { case (at, _) => at.size == 1 }
    val chosen = ofOne.toSeq.sortBy(_._1.head).flatMap { case (at, filters) => ofKey(predicate, at.head, filters) }
    val ids = if (ofSeveral.isEmpty) None else {
      idsOf(predicate, ofSeveral.values.flatten.toSeq, request(chosen, None))
    }
    if (chosen.isEmpty && ids.isEmpty) Null else request(chosen, ids)
  }

  private def request(chosen: Seq[JsonNode], ids: Option[Seq[Long]]): JsonNode =
    obj("values" -> arr(chosen), "partition_ids" -> ids.fold[JsonNode](Null)(each => arr(each.map(long))))

  private def positions(filter: Expression): Set[Int] =
    filter.references.map(a => keys.indexWhere(field => SQLConf.get.resolver(field.name, a.name))).toSet

  private def ofKey(predicate: Option[JsonNode], at: Int, filters: Seq[Expression]): Option[JsonNode] = {
    val key = table.partitionColumns(at).name
    val chosen = PartitionGroups.fetch(client, table, values(), predicate, Seq(key), PartitionGroups.Values) {
      new ChosenGroups[String](tolerant(filters), _.name, PartitionChoice.MostValues)
    }
    Option.when(chosen.left > 0 && chosen.areAll)(
      obj("key" -> text(key), "partitions" -> arr(chosen.kept.map(text(_: String)).toSeq)))
  }

  private def idsOf(predicate: Option[JsonNode], filters: Seq[Expression], among: JsonNode): Option[Seq[Long]] = {
    val chosen = PartitionGroups.fetch(client, table, values(), predicate, Nil, PartitionGroups.Each, among) {
      new ChosenGroups[Long](tolerant(filters), _.id, PartitionChoice.MostPartitions)
    }
    // Of most partitions the files are read as quickly without a list of them.
    Option.when(chosen.areAll && chosen.kept.length <= chosen.left)(chosen.kept.toSeq)
  }

  // They are in no order here, and one that fails may come after one that leaves the partition out.
  private def tolerant(filters: Seq[Expression]) = new PartitionFilter(keys, filters.map(Tolerated(_)))
}

/** What `name` has of the groups for which `filter` holds, as long as they are at most `most`. */
private[scan] class ChosenGroups[T](filter: PartitionFilter, name: PartitionGroup => T, most: Int)
  extends GroupConsumer {
  val kept = ArrayBuffer.empty[T]
  var left = 0L

  def areAll: Boolean = kept.length <= most

  override def take(group: PartitionGroup): Boolean = {
    if (filter.matches(group.values)) kept += name(group) else left += 1
    areAll
  }
}

private object PartitionChoice {
  // As many texts of partitions as a request holds with ease.
  val MostValues = 100000
  val MostPartitions = 500000
}
