package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, InSet, Literal => CatalystLiteral}
import org.apache.spark.sql.connector.expressions.{Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering
import org.apache.spark.sql.types.NullType

/**
 * A scan that receives the runtime filters of joins, as lists of values. Before 4.3 Spark does not pass the result of a
 * scalar subquery.
 */
trait RuntimeFiltered extends SupportsRuntimeV2Filtering {
  protected def found(filters: Seq[Expression]): Unit

  override def filter(predicates: Array[Predicate]): Unit = found(predicates.toSeq.flatMap(asExpression))

  // Spark sends only IN predicates. Any other predicate is ignored and excludes nothing.
  private def asExpression(predicate: Predicate): Option[Expression] =
    Option.when(predicate.name() == "IN")(predicate.children().toSeq).collect {
      case Seq(column: NamedReference, values @ _*) if column.fieldNames().length == 1 && values.forall(isLiteral) =>
        val literals = values.map(_.asInstanceOf[Literal[_]])
        val dataType = literals.headOption.fold[org.apache.spark.sql.types.DataType](NullType)(_.dataType())
        // Nothing equals a value of an empty list.
        if (literals.isEmpty) CatalystLiteral.FalseLiteral
        else InSet(AttributeReference(column.fieldNames().head, dataType)(), literals.map(_.value(): Any).toSet)
    }

  private def isLiteral(value: Any): Boolean = value.isInstanceOf[Literal[_]]
}
