package org.apache.spark.sql.catalogext.scan

import java.time.DateTimeException

import scala.util.Try

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.{InSubqueryExec, ScalarSubquery}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}

/** Evaluates Spark's own filter expressions on rows of partition values. */
class PartitionFilter(schema: StructType, filters: Seq[Expression]) {
  private val predicate = filters.map(PartitionFilter.bound(schema, _)).reduceOption(And(_, _)).map { condition =>
    val evaluator = Predicate.createInterpreted(condition)
    evaluator.initialize(0)
    evaluator
  }

  def matches(values: InternalRow): Boolean = predicate.forall(_.eval(values))
}

object PartitionFilter extends PredicateHelper {
  /** The filter over rows of the schema: the same for every reference to a table. */
  def bound(schema: StructType, filter: Expression): Expression = filter.transform { case a: Attribute =>
    val index = schema.indexWhere(field => SQLConf.get.resolver(field.name, a.name))
    BoundReference(index, schema(index).dataType, nullable = true)
  }

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

  /**
   * The filters that joins and subqueries found while running, with the values that they found, as far as they can be
   * evaluated on keys. One that fails for a partition keeps it: Spark evaluates it again, on rows.
   */
  def fromRuntime(schema: StructType, filters: Seq[Expression]): Seq[Expression] =
    filters.flatMap(splitConjunctivePredicates).map(found).filter(isOf(schema, _)).map(Tolerated(_))

  /** Whether a filter is of columns of `schema` alone, and can be evaluated on the driver. */
  def isOf(schema: StructType, filter: Expression): Boolean =
    filter.deterministic && filter.references.nonEmpty &&
      filter.references.forall(a => schema.fieldNames.exists(SQLConf.get.resolver(_, a.name))) &&
      !filter.exists(e => e.isInstanceOf[PlanExpression[_]] || e.isInstanceOf[Unevaluable] && !e.isInstanceOf[Attribute])

  private def found(filter: Expression): Expression = filter.transformUp {
    case DynamicPruningExpression(child) => child
    case in: InSubqueryExec => in.values().fold[Expression](Literal.TrueLiteral)(v => InSet(in.child, v.toSet))
    case subquery: ScalarSubquery => Literal(subquery.eval(), subquery.dataType)
  }

  private def attribute(schema: StructType, name: String): Attribute = {
    val field = schema.find(f => SQLConf.get.resolver(f.name, name)).get
    AttributeReference(field.name, plain(field.dataType))()
  }

  private def plain(dataType: DataType): DataType = CharVarcharUtils.replaceCharVarcharWithString(dataType)
}

/** A filter that holds where it cannot be evaluated. */
case class Tolerated(child: Expression) extends UnaryExpression with Predicate with CodegenFallback {
  override def nullable: Boolean = child.nullable
  override def eval(row: InternalRow): Any = try child.eval(row) catch {
    case _: SparkThrowable | _: ArithmeticException | _: DateTimeException => true
  }
  override protected def withNewChildInternal(newChild: Expression): Tolerated = copy(child = newChild)
}
