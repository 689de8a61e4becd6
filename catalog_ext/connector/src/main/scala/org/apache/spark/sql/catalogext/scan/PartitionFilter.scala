package org.apache.spark.sql.catalogext.scan

import scala.util.Try

import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.expressions.{Literal => V2Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{Predicate => V2Predicate}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{AtomicType, DataType, StructType}

/** Evaluates Spark's own filter expressions on rows of partition values. */
class PartitionFilter(schema: StructType, filters: Seq[Expression]) {
  private val predicate = filters.map(bound).reduceOption(And(_, _)).map { condition =>
    val evaluator = Predicate.createInterpreted(condition)
    evaluator.initialize(0)
    evaluator
  }

  def matches(values: InternalRow): Boolean = predicate.forall(_.eval(values))

  private def bound(filter: Expression): Expression = filter.transform { case a: Attribute =>
    val index = schema.indexWhere(field => SQLConf.get.resolver(field.name, a.name))
    BoundReference(index, schema(index).dataType, nullable = true)
  }
}

object PartitionFilter {
  /** `column = value` for each of `names`; a NULL value means the default partition. */
  def equalities(schema: StructType, names: Seq[String], values: InternalRow): Seq[Expression] =
    names.zipWithIndex.map { case (name, i) =>
      val column = attribute(schema, name)
      if (values.isNullAt(i)) IsNull(column)
      else EqualTo(column, Literal(values.get(i, column.dataType), column.dataType))
    }

  /** What holds for the values of the partition of this name, and maybe of others; nothing where none can have it. */
  def ofName(schema: StructType, zone: String, name: String): Seq[Expression] =
    Try(new PartitionValues(schema, zone).parse(name)).toOption.toSeq
      .flatMap(values => equalities(schema, schema.fieldNames.toSeq, values))

  /** The filters that a join found while running, as far as they are of the kinds that Spark sends: `=` and IN. */
  def fromRuntime(schema: StructType, predicates: Seq[V2Predicate]): Seq[Expression] = predicates.flatMap { predicate =>
    (predicate.name(), predicate.children().toSeq) match {
      case ("=" | "IN", (reference: NamedReference) +: (literals @ Literals(_)))
          if reference.fieldNames().length == 1 =>
        val column = attribute(schema, reference.fieldNames().head)
        Some(among(column, literals.map(_.asInstanceOf[V2Literal[_]].value()).toSet))
      case _ => None
    }
  }

  private def among(column: Attribute, values: Set[Any]): Expression = InSet(column, values)

  private def attribute(schema: StructType, name: String): Attribute = {
    val field = schema.find(f => SQLConf.get.resolver(f.name, name)).get
    AttributeReference(field.name, plain(field.dataType))()
  }

  private def plain(dataType: DataType): DataType = CharVarcharUtils.replaceCharVarcharWithString(dataType)

  private object Literals {
    def unapply(items: Seq[Any]): Option[Seq[Any]] =
      Option.when(items.forall {
        case literal: V2Literal[_] => literal.dataType().isInstanceOf[AtomicType]
        case _ => false
      })(items)
  }
}
