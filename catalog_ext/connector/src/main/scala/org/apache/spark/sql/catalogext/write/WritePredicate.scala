package org.apache.spark.sql.catalogext.write


import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{PartitionColumns, TableMetadata}
import org.apache.spark.sql.catalogext.scan.PredicateTranslator
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.connector.expressions.{Expression => V2Expression, Literal => V2Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{Predicate => V2Predicate}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** Converts the conditions of overwrites and deletes to the contract's predicates: exactly, or not at all. */
object WritePredicate {
  /**
   * The conjunction of `predicates` as a predicate of the contract. None if a part uses other columns than partition
   * columns, or cannot be expressed. Some(None) is the predicate that is true for every partition.
   */
  def exact(table: TableMetadata, predicates: Seq[V2Predicate], zone: String): Option[Option[JsonNode]] = {
    val keys = PartitionColumns.visible(table, SQLConf.get.resolver)
    val columns = keys.fieldNames.map(name => name -> name).toMap
    val translator = new PredicateTranslator(columns, DateTimeUtils.getZoneId(zone))
    val expressions = predicates.filterNot(_.name() == "ALWAYS_TRUE").map(expression(table, _))
    if (expressions.contains(None)) None
    else if (expressions.isEmpty) Some(None)
    else translator.exactly(expressions.flatten.reduce(And(_, _))).map(Some(_))
  }

  private def expression(table: TableMetadata, e: V2Expression): Option[Expression] = e match {
    case predicate: V2Predicate => predicate.name() match {
      case "AND" => both(table, predicate).map { case (l, r) => And(l, r) }
      case "OR" => both(table, predicate).map { case (l, r) => Or(l, r) }
      case "NOT" => expression(table, predicate.children().head).map(Not(_))
      case "ALWAYS_TRUE" => Some(Literal.TrueLiteral)
      case "ALWAYS_FALSE" => Some(Literal.FalseLiteral)
      case name => comparison(table, name, predicate.children().toSeq)
    }
    case reference: NamedReference if reference.fieldNames().length == 1 =>
      key(table, reference.fieldNames().head)
    case _ => None
  }

  private def both(table: TableMetadata, predicate: V2Predicate): Option[(Expression, Expression)] =
    for {
      left <- expression(table, predicate.children()(0))
      right <- expression(table, predicate.children()(1))
    } yield (left, right)

  private def comparison(table: TableMetadata, name: String, children: Seq[V2Expression]): Option[Expression] =
    children match {
      case (reference: NamedReference) +: rest if reference.fieldNames().length == 1 =>
        for {
          column <- key(table, reference.fieldNames().head)
          values = rest.collect { case literal: V2Literal[_] => literal }.flatMap(value(table, column, name, _))
          if values.length == rest.length
          found <- operator(name, column, values)
        } yield found
      case _ => None
    }

  private def operator(name: String, column: Attribute, values: Seq[Literal]): Option[Expression] =
    (name, values) match {
      case ("=", Seq(v)) => Some(EqualTo(column, v))
      case ("<=>", Seq(v)) => Some(EqualNullSafe(column, v))
      case ("<>", Seq(v)) => Some(Not(EqualTo(column, v)))
      case ("<", Seq(v)) => Some(LessThan(column, v))
      case ("<=", Seq(v)) => Some(LessThanOrEqual(column, v))
      case (">", Seq(v)) => Some(GreaterThan(column, v))
      case (">=", Seq(v)) => Some(GreaterThanOrEqual(column, v))
      case ("IN", several) => Some(In(column, several))
      case ("IS_NULL", Seq()) => Some(IsNull(column))
      case ("IS_NOT_NULL", Seq()) => Some(IsNotNull(column))
      case ("STARTS_WITH", Seq(v)) => Some(StartsWith(column, v))
      case ("ENDS_WITH", Seq(v)) => Some(EndsWith(column, v))
      case ("CONTAINS", Seq(v)) => Some(Contains(column, v))
      case _ => None
    }

  private def key(table: TableMetadata, name: String): Option[Attribute] =
    PartitionColumns.visible(table, SQLConf.get.resolver)
      .find(field => SQLConf.get.resolver(field.name, name))
      .map(field => AttributeReference(field.name, PartitionColumns.plain(field.dataType))())

  /**
   * The literal as the value to compare with a key in the index; None if the comparison cannot be expressed. CHAR
   * values arrive padded, and are unpadded in paths and in the index. A virtual CHAR key is STRING in queries, so a
   * literal with trailing blanks equals no value; the index ignores trailing blanks and cannot express that. For a
   * declared key it cannot express conditions on the end of the padded value either.
   */
  private def value(table: TableMetadata, column: Attribute, name: String, literal: V2Literal[_]): Option[Literal] = {
    val isChar = PredicateTranslator.chars(table.partitionColumns)(column.name)
    (literal.value(), literal.dataType()) match {
      case (text: UTF8String, _: StringType) if isChar && text.trimRight() != text &&
          (!table.declared || Matches(name)) => None
      case (_, _: StringType) if isChar && table.declared && name == "ENDS_WITH" => None
      case (text: UTF8String, _: StringType) if isChar => Some(Literal(text.trimRight(), StringType))
      case (other, dataType) => Some(Literal(other, dataType))
    }
  }

  // The V2 predicates that match a part of a string.
  private val Matches = Set("STARTS_WITH", "ENDS_WITH", "CONTAINS")
}
