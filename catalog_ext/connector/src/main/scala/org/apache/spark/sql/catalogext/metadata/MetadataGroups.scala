package org.apache.spark.sql.catalogext.metadata

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.connector.expressions.{Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate._
import org.apache.spark.sql.types._

/**
 * An aggregation of a metadata table in the form of the service's request. Each row of the answer is a partial group,
 * and Spark merges the groups.
 *
 * @param columns of the result: the grouping columns, then the partial aggregates
 */
case class MetadataGroups(table: MetadataTable, columns: Seq[GroupColumn]) {
  private val named = {
    val values = columns.collect { case value: Number => value }.distinct.zipWithIndex.toMap
    columns.zipWithIndex.map {
      case (Key(key), i) => StructField(s"key_$i", table.keys(key).dataType)
      case (Name, _) => StructField(MetadataGroups.Partition, StringType)
      case (value: Number, _) => StructField(s"value_${values(value)}", LongType)
    }
  }

  val schema: StructType = StructType(named)

  /** The columns that the service returns; the others are computed from the partition's name. */
  val sent: Set[String] = named.map(_.name).toSet -- keyOf.keySet

  /** The partition column for each column that is computed from the partition's name. */
  def keyOf: Map[String, String] = columns.zip(named).collect { case (Key(key), field) => field.name -> key }.toMap

  private val keys = columns.collect { case Key(key) => key }.distinct

  /** The request's field `groups`. */
  def json: JsonNode = {
    val values = columns.collect { case value: Number => value }.distinct
    obj(
      "keys" -> (if (columns.contains(Name)) Null else arr(keys.map(text(_: String)))),
      "aggregates" -> arr(values.map(v => obj("function" -> text(v.function), "column" -> text(v.column)))))
  }

  def description: String = {
    val of = columns.map {
      case Key(key) => key
      case Name => MetadataGroups.Partition
      case Number(function, column) => s"$function(${column.getOrElse("*")})"
    }
    s"grouped by the index: ${of.mkString(", ")}"
  }
}

/** A column of the partial groups. */
sealed trait GroupColumn

/** The value of a partition column. */
case class Key(name: String) extends GroupColumn

/** The name of the partition. */
case object Name extends GroupColumn

/** An aggregate function, with the contract's name, over a numeric column or over rows. */
case class Number(function: String, column: Option[String]) extends GroupColumn

object MetadataGroups {
  private val Partition = "partition"

  /** None if the service cannot evaluate all parts of the aggregation. */
  def of(table: MetadataTable, aggregation: Aggregation): Option[MetadataGroups] = {
    val grouping = aggregation.groupByExpressions().toSeq.map(grouped(table, _))
    val functions = aggregation.aggregateExpressions().toSeq.map(function(table, _))
    // min and max of keys are computed from groups by these keys. Together with a count they are not pushed down: over
    // no partition there would be no group, but the count needs a row with 0.
    val countsNothing = grouping.isEmpty && functions.flatten.exists(isCount) && functions.flatten.exists(isKey)
    Option.when((grouping ++ functions).forall(_.isDefined) && !countsNothing) {
      MetadataGroups(table, (grouping ++ functions).flatten)
    }
  }

  private def isCount(column: GroupColumn): Boolean = column match {
    case Number(function, _) => function == "count"
    case _ => false
  }

  private def isKey(column: GroupColumn): Boolean = column match {
    case Number(_, _) => false
    case _ => true
  }

  private def grouped(table: MetadataTable, e: Expression): Option[GroupColumn] =
    if (namesOf(e) == Seq(Partition)) Some(Name) else key(table, e)

  /** The partition column that an expression names, as a hidden column or as a field of the struct. */
  private def key(table: MetadataTable, e: Expression): Option[GroupColumn] = namesOf(e) match {
    case Seq(name) => table.keyColumns.find(_.name == name).map(field => Key(field.name))
    case Seq(struct, name) if table.values.contains(struct) => table.keys.find(_.name == name).map(field => Key(field.name))
    case _ => None
  }

  private def namesOf(e: Expression): Seq[String] = e match {
    case reference: NamedReference => reference.fieldNames().toSeq
    case _ => Nil
  }

  private def function(table: MetadataTable, f: AggregateFunc): Option[GroupColumn] = f match {
    case _: CountStar => Some(Number("count", None))
    case count: Count if !count.isDistinct => number(table, "count", count.column())
    case sum: Sum if !sum.isDistinct => number(table, "sum", sum.column())
    case min: Min => number(table, "min", min.column()).orElse(key(table, min.column()))
    case max: Max => number(table, "max", max.column()).orElse(key(table, max.column()))
    case _ => None
  }

  private def number(table: MetadataTable, function: String, e: Expression): Option[GroupColumn] = namesOf(e) match {
    case Seq(name) if table.numbers(name) => Some(Number(function, Some(name)))
    case _ => None
  }
}
