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
 * Selects partitions by filters that the contract's predicates cannot express. The service returns the distinct values
 * (of one key, or of whole partitions), Spark's expressions are evaluated on them, and only files of the remaining
 * partitions are requested.
 *
 * @param keys the partition columns as Spark's readers see them, in the table's order
 */
class PartitionChoice(client: ServiceClient, table: TableMetadata, keys: StructType, values: () => PartitionValues) {
  /**
   * The field `among` of requests for files, which limits them to the selected partitions; null if nothing can be
   * excluded.
   *
   * @param predicate the part of all filters that the contract expresses
   * @param left the filters on keys that it does not express exactly
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
    // If most partitions remain, sending their list costs as much as reading the files of all.
    Option.when(chosen.areAll && chosen.kept.length <= chosen.left)(chosen.kept.toSeq)
  }

  // A filter that fails counts as true here: values arrive in no particular order, so that it may fail for a partition
  // that another filter excludes.
  private def tolerant(filters: Seq[Expression]) = new PartitionFilter(keys, filters.map(Tolerated(_)))
}

/** Collects `name(group)` of the groups for which `filter` is true, up to `most` of them. */
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
  // The maximum number of distinct values, and below, of partition names in one request.
  val MostValues = 100000
  val MostPartitions = 500000
}
