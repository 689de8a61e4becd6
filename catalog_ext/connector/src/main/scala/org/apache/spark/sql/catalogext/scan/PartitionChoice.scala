package org.apache.spark.sql.catalogext.scan

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
    val filter = new PartitionFilter(keys, filters)
    val key = table.partitionColumns(at).name
    var left = 0L
    val kept = PartitionGroups.fetch(client, table, values(), predicate, Seq(key), PartitionGroups.Values) { group =>
      val holds = filter.matches(group.values)
      if (!holds) left += 1
      holds
    }
    Option.when(left > 0 && kept.length <= PartitionChoice.MostValues) {
      obj("key" -> text(key), "partitions" -> arr(kept.map(group => text(group.name))))
    }
  }

  private def idsOf(predicate: Option[JsonNode], filters: Seq[Expression], among: JsonNode): Option[Seq[Long]] = {
    val filter = new PartitionFilter(keys, filters)
    var left = 0L
    val kept = PartitionGroups.fetch(client, table, values(), predicate, Nil, PartitionGroups.Each, among) { group =>
      val holds = filter.matches(group.values)
      if (!holds) left += 1
      holds
    }.map(_.id)
    // Of most partitions the files are read as quickly without a list of them.
    Option.when(kept.length <= left)(kept)
  }
}

private object PartitionChoice {
  // As many texts of partitions as a request holds with ease.
  val MostValues = 100000
}
