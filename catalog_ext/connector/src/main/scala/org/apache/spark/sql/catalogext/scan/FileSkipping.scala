package org.apache.spark.sql.catalogext.scan

import java.util.{Arrays, Comparator}

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.ResolvedSettings
import org.apache.spark.sql.catalogext.service.Json
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * Decides by column statistics in the index whether a file may contain rows that match filters on data columns. Spark
 * evaluates the filters again on the rows.
 *
 * @param fields the data columns whose statistics are needed
 * @param key a value that is equal for filters that skip the same files
 */
private[catalogext] class FileSkipping private (
    val fields: Seq[StructField], conditions: Seq[FileSkipping.Condition], val key: Any) {

  def mayHold(bounds: FileBounds): Boolean = bounds.rows != 0 && conditions.forall(_(bounds))
}

private[catalogext] object FileSkipping {
  val Setting = "file-skipping"

  /** Whether a file with these bounds may have a matching row. */
  private type Condition = FileBounds => Boolean

  // A limit on columns, because the index returns the statistics of each column for each file.
  private val MostColumns = 16

  /**
   * The conditions that follow from the filters; None if no filter uses bounds.
   *
   * @param columns the data columns that may have statistics
   * @param all the columns that filters may name, partition columns included
   */
  def of(columns: StructType, all: StructType, filters: Seq[Expression]): Option[FileSkipping] = {
    val translated = new Translation(columns)
    val found = filters.flatMap(filter => translated.condition(filter).map(filter -> _))
    Option.when(found.nonEmpty) {
      val key = found.map { case (filter, _) => PartitionFilter.bound(all, filter).canonicalized }.toSet
      new FileSkipping(translated.fields, found.map(_._2), key)
    }
  }

  /**
   * Whether the reader matches columns by name, so that column statistics, which are by name, are about the columns
   * that it reads. Some options make readers match by position.
   */
  def isByName(format: String, options: CaseInsensitiveStringMap, hadoop: String => String): Boolean = {
    val conf = SQLConf.get
    def isSet(name: String) = Option(options.get(name)).orElse(Option(hadoop(name))).exists(_.trim.equalsIgnoreCase("true"))
    !conf.caseSensitiveAnalysis && (format match {
      case "parquet" => !conf.parquetFieldIdReadEnabled
      case "orc" => !isSet("orc.force.positional.evolution")
      case _ => false
    })
  }

  private class Translation(columns: StructType) extends PredicateHelper {
    private var used = Vector.empty[StructField]

    def fields: Seq[StructField] = used

    /** The condition that a file must meet to have a row for which `e` is true; None if there is no such condition. */
    def condition(e: Expression): Option[Condition] = e match {
      case and: And =>
        val parts = splitConjunctivePredicates(and).flatMap(condition)
        Option.when(parts.nonEmpty)(bounds => parts.forall(_(bounds)))
      case or: Or =>
        val parts = splitDisjunctivePredicates(or).map(condition)
        Option.when(parts.forall(_.isDefined)) {
          val each = parts.flatten
          bounds => each.exists(_(bounds))
        }
      case EqualTo(Column(at), Value(v)) => among(at, Seq(v))
      case EqualTo(Value(v), Column(at)) => among(at, Seq(v))
      case EqualNullSafe(Column(at), Literal(null, _)) => Some(_.nulls(at) != 0)
      case EqualNullSafe(Literal(null, _), Column(at)) => Some(_.nulls(at) != 0)
      case EqualNullSafe(Column(at), Value(v)) => among(at, Seq(v))
      case EqualNullSafe(Value(v), Column(at)) => among(at, Seq(v))
      case LessThan(Column(at), Value(v)) => least(at, v, _ < 0)
      case GreaterThan(Value(v), Column(at)) => least(at, v, _ < 0)
      case LessThanOrEqual(Column(at), Value(v)) => least(at, v, _ <= 0)
      case GreaterThanOrEqual(Value(v), Column(at)) => least(at, v, _ <= 0)
      case GreaterThan(Column(at), Value(v)) => greatest(at, v, _ > 0)
      case LessThan(Value(v), Column(at)) => greatest(at, v, _ > 0)
      case GreaterThanOrEqual(Column(at), Value(v)) => greatest(at, v, _ >= 0)
      case LessThanOrEqual(Value(v), Column(at)) => greatest(at, v, _ >= 0)
      case In(Column(at), items) if items.forall(_.isInstanceOf[Literal]) =>
        among(at, items.map(_.asInstanceOf[Literal].value))
      case InSet(Column(at), items) => among(at, items.toSeq)
      case IsNull(Column(at)) => Some(_.nulls(at) != 0)
      case IsNotNull(Column(at)) => Some(!_.isAllNull(at))
      case StartsWith(Column(at), Value(prefix: UTF8String)) => Some { bounds =>
        val (low, high) = (bounds.minimum(at).asInstanceOf[UTF8String], bounds.maximum(at).asInstanceOf[UTF8String])
        !bounds.isAllNull(at) && (high == null || high.binaryCompare(prefix) >= 0) &&
          (low == null || low.binaryCompare(prefix) <= 0 || low.startsWith(prefix))
      }
      case Not(EqualTo(Column(at), Value(v))) => others(at, v)
      case Not(EqualTo(Value(v), Column(at))) => others(at, v)
      case Not(Column(at)) => among(at, Seq(false))
      case Column(at) if used(at).dataType == BooleanType => among(at, Seq(true))
      case _ => None
    }

    private def ordering(at: Int): Ordering[Any] = TypeUtils.getInterpretedOrdering(used(at).dataType)

    private def isFloating(at: Int): Boolean = used(at).dataType match {
      case FloatType | DoubleType => true
      case _ => false
    }

    /** The condition that one of the values may be in the column, that is, within its bounds. */
    private def among(at: Int, values: Seq[Any]): Option[Condition] = {
      val order = ordering(at)
      val sorted = values.filter(_ != null).map(_.asInstanceOf[AnyRef]).toArray
      val comparator: Comparator[AnyRef] = (one, other) => order.compare(one, other)
      Arrays.sort(sorted, comparator)
      Option.when(sorted.nonEmpty && !sorted.exists(isNaN)) { bounds =>
        val (low, high) = (bounds.minimum(at), bounds.maximum(at))
        val found = if (low == null) 0 else Arrays.binarySearch(sorted, low.asInstanceOf[AnyRef], comparator)
        val first = if (found < 0) -found - 1 else found
        !bounds.isAllNull(at) && first < sorted.length && (high == null || order.lteq(sorted(first), high))
      }
    }

    private def least(at: Int, value: Any, holds: Int => Boolean): Option[Condition] = {
      val order = ordering(at)
      Option.when(!isNaN(value)) { bounds =>
        val low = bounds.minimum(at)
        !bounds.isAllNull(at) && (low == null || holds(order.compare(low, value)))
      }
    }

    // The condition for the upper bound of a column, which `holds` compares with `value`. None for floating-point
    // columns: NaN is the largest number in Spark, but some writers leave it out of the bounds.
    private def greatest(at: Int, value: Any, holds: Int => Boolean): Option[Condition] = {
      val order = ordering(at)
      Option.when(!isFloating(at)) { bounds =>
        val high = bounds.maximum(at)
        !bounds.isAllNull(at) && (high == null || holds(order.compare(high, value)))
      }
    }

    /** The condition that the file has a value of the column that differs from `value`. */
    private def others(at: Int, value: Any): Option[Condition] = {
      val order = ordering(at)
      Option.when(!isFloating(at)) { bounds =>
        val (low, high) = (bounds.minimum(at), bounds.maximum(at))
        !bounds.isAllNull(at) && (low == null || high == null || !order.equiv(low, value) || !order.equiv(high, value))
      }
    }

    private def isNaN(value: Any): Boolean = value match {
      case v: Float => v.isNaN
      case v: Double => v.isNaN
      case _ => false
    }

    private object Column {
      /** The position, among the used columns, of a column with bounds. */
      def unapply(e: Expression): Option[Int] = e match {
        case a: Attribute =>
          columns.find(field => SQLConf.get.resolver(field.name, a.name))
            .filter(field => field.dataType == a.dataType && FileBounds.isBounded(field.dataType)).flatMap(place)
        case _ => None
      }

      private def place(field: StructField): Option[Int] = {
        val known = used.indexWhere(_.name == field.name)
        if (known >= 0) Some(known)
        else Option.when(used.length < MostColumns) {
          used :+= field
          used.length - 1
        }
      }
    }

    private object Value {
      def unapply(e: Expression): Option[Any] = e match {
        case Literal(value, _) if value != null => Some(value)
        case _ => None
      }
    }
  }
}

/**
 * Statistics of some data columns in one file: bounds, null if unknown, and NULL counts. One object is reused for all
 * files.
 *
 * @param fields the columns, of types that `FileBounds.isBounded` accepts
 */
private[catalogext] class FileBounds(fields: Seq[StructField]) {
  private val casts = fields.map { field =>
    Cast(BoundReference(0, StringType, nullable = false), field.dataType, Some("UTC"), EvalMode.TRY)
  }.toArray
  private val least = new Array[Any](fields.length)
  private val greatest = new Array[Any](fields.length)
  private val nullCounts = new Array[Long](fields.length)
  private var vectors = Array.empty[VarCharVector]

  /** Row count of the file; negative if unknown. */
  var rows: Long = -1

  def minimum(column: Int): Any = least(column)
  def maximum(column: Int): Any = greatest(column)
  /** Number of NULLs; negative if unknown. */
  def nulls(column: Int): Long = nullCounts(column)
  /**
   * Whether the column has only NULLs. A bound proves that there are other values, so that a NULL count equal to the
   * row count is then wrong.
   */
  def isAllNull(column: Int): Boolean =
    rows >= 0 && nullCounts(column) == rows && least(column) == null && greatest(column) == null

  /** Selects the batch whose files follow. */
  def of(batch: VectorSchemaRoot): Unit =
    vectors = fields.indices.map(i => batch.getVector(s"bounds_$i").asInstanceOf[VarCharVector]).toArray

  def read(row: Int, count: Long): Unit = {
    rows = count
    var column = 0
    while (column < vectors.length) {
      val known = if (vectors(column).isNull(row)) Json.Null else Json.mapper.readTree(vectors(column).get(row))
      least(column) = widened(bound(known.path("min"), column), math.min)
      greatest(column) = widened(bound(known.path("max"), column), math.max)
      val nulls = known.path("nulls").asLong(-1)
      // A NULL count above the row count is wrong, so it counts as unknown.
      nullCounts(column) = if (rows >= 0 && nulls > rows) -1 else nulls
      column += 1
    }
  }

  private def bound(node: JsonNode, column: Int): Any =
    if (!node.isTextual || node.textValue.indexOf(FileBounds.NoCharacter) >= 0) null
    else casts(column).eval(new GenericInternalRow(Array[Any](UTF8String.fromString(node.textValue))))

  // A DOUBLE column may have been FLOAT when the file was written. The stored text is the shortest one that identifies
  // the FLOAT; parsed as a DOUBLE, it may lie on either side of the true value, so the bound is widened.
  private def widened(bound: Any, farther: (Double, Double) => Double): Any = bound match {
    case value: Double => farther(value, value.toFloat.toDouble)
    case other => other
  }
}

private[catalogext] object FileBounds {
  // Do not use bounds with this replacement character: it stands for invalid bytes, which are sorted differently.
  private val NoCharacter = '\uFFFD'

  /** Whether bounds of the type are stored, and are ordered like its values. */
  def isBounded(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampNTZType => true
    case FloatType | DoubleType | _: DecimalType => true
    case s: StringType => s.isUTF8BinaryCollation
    case _ => false
  }
}
