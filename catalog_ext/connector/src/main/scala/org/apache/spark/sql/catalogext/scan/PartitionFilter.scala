package org.apache.spark.sql.catalogext.scan

import java.time.DateTimeException

import scala.util.Try

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.{InSubqueryExec, ScalarSubquery}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}

/** Evaluates Spark's own filter expressions on partition values. */
class PartitionFilter(schema: StructType, filters: Seq[Expression]) {
  private val predicate = filters.map(PartitionFilter.bound(schema, _)).reduceOption(And(_, _)).map { condition =>
    val evaluator = Predicate.createInterpreted(condition)
    evaluator.initialize(0)
    evaluator
  }

  def matches(values: InternalRow): Boolean = predicate.forall(_.eval(values))
}

object PartitionFilter extends PredicateHelper {
  /**
   * The filter, with column references replaced by positions in `schema`. All references to a table give an equal
   * result.
   */
  def bound(schema: StructType, filter: Expression): Expression = filter.transform { case a: Attribute =>
    val index = schema.indexWhere(field => SQLConf.get.resolver(field.name, a.name))
    BoundReference(index, schema(index).dataType, nullable = true)
  }

  /** A filter `column = value` for each name, with the values of the row; a NULL value means the default partition. */
  def equalities(schema: StructType, names: Seq[String], values: InternalRow): Seq[Expression] =
    names.zipWithIndex.map { case (name, i) =>
      val column = attribute(schema, name)
      if (values.isNullAt(i)) IsNull(column)
      else EqualTo(column, Literal(values.get(i, column.dataType), column.dataType))
    }

  /**
   * Filters on keys that hold for the partition of this name, and possibly for others; empty if no partition can have
   * the name.
   */
  def ofName(schema: StructType, zone: String, name: String): Seq[Expression] =
    Try(new PartitionValues(schema, zone).parse(name)).toOption.toSeq
      .flatMap(values => equalities(schema, schema.fieldNames.toSeq, values))

  /**
   * The filters that joins and subqueries have found at run time, with their values, as far as they use partition
   * columns only. A filter whose evaluation fails for a partition keeps the partition: Spark evaluates the filter again
   * on rows.
   */
  def fromRuntime(schema: StructType, filters: Seq[Expression]): Seq[Expression] =
    filters.flatMap(splitConjunctivePredicates).map(found).filter(isOf(schema, _)).map(Tolerated(_))

  /** Whether a filter uses only columns of `schema`, and can be evaluated on the driver. */
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

/** A filter that counts as true if its evaluation fails. */
case class Tolerated(child: Expression) extends UnaryExpression with Predicate with CodegenFallback {
  override def nullable: Boolean = child.nullable
  override def eval(row: InternalRow): Any = try child.eval(row) catch {
    case _: SparkThrowable | _: ArithmeticException | _: DateTimeException => true
  }
  override protected def withNewChildInternal(newChild: Expression): Tolerated = copy(child = newChild)
}

/**
 * Hive's strict mode: a query of a partitioned table is refused unless it filters a partition column.
 *
 * It checks the filters that were pushed into the scan. So a predicate within a view counts, and so does one that
 * follows from a join condition and a predicate on the other side. A join's runtime filter does not count.
 */
object StrictMode {
  /**
   * The key of the resolved setting. Its value is the name of the user's setting that requires the predicate, for the
   * error message.
   */
  val Setting = "strict"
  val Check = "hive.strict.checks.no.partition.filter"

  /** Raises an error unless one of `filters` limits one of `keys`. */
  def check(table: String, keys: Seq[String], filters: Seq[Expression], said: String): Unit =
    if (!isSatisfied(keys, filters))
      throw ConnectorErrors.analysis(ConnectorErrors.PartitionPredicateRequired,
        s"Strict mode, $said, refuses to read table $table without a predicate on one of its partition columns " +
          s"(${keys.mkString(", ")}). Add one that constants decide, such as WHERE ${keys.head} = …; IS NOT NULL " +
          s"and subqueries are none. SET $Check = false allows such a read.",
        Map("table" -> table, "columns" -> keys.mkString(", ")))

  def isSatisfied(keys: Seq[String], filters: Seq[Expression]): Boolean =
    keys.isEmpty || filters.exists(limits(_, keys.toSet + FileColumns.Partition))

  // Spark adds IS NOT NULL for every join and comparison, so it does not count.
  private def limits(filter: Expression, keys: Set[String]): Boolean = filter match {
    case And(left, right) => limits(left, keys) || limits(right, keys)
    case Or(left, right) => limits(left, keys) && limits(right, keys)
    case IsNotNull(_) => false
    case comparison: BinaryComparison if comparison.left.semanticEquals(comparison.right) => false
    case other => other.references.exists(a => keys.contains(a.name))
  }
}
