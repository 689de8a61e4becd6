package org.apache.spark.sql.catalogext.scan

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.service.Json
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, EvalMode, GenericInternalRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * What the index knows of some data columns in one file: bounds, which are null where it knows none, and NULLs. One object
 * has the files in turn.
 *
 * @param fields the columns, of types that `FileBounds.isBounded` names
 */
private[catalogext] class FileBounds(fields: Seq[StructField]) {
  private val casts = fields.map { field =>
    Cast(BoundReference(0, StringType, nullable = false), field.dataType, Some("UTC"), EvalMode.TRY)
  }.toArray
  private val least = new Array[Any](fields.length)
  private val greatest = new Array[Any](fields.length)
  private val nullCounts = new Array[Long](fields.length)
  private var vectors = Array.empty[VarCharVector]

  /** Of the file; negative where unknown. */
  var rows: Long = -1

  def minimum(column: Int): Any = least(column)
  def maximum(column: Int): Any = greatest(column)
  /** How many NULLs; negative where unknown. */
  def nulls(column: Int): Long = nullCounts(column)
  /** Bounds are of values that are no NULLs: with one of them the count is wrong. */
  def isAllNull(column: Int): Boolean =
    rows >= 0 && nullCounts(column) == rows && least(column) == null && greatest(column) == null

  /** What follows are files of this batch. */
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
      // More NULLs than rows are none that are counted.
      nullCounts(column) = if (rows >= 0 && nulls > rows) -1 else nulls
      column += 1
    }
  }

  private def bound(node: JsonNode, column: Int): Any =
    if (!node.isTextual || node.textValue.indexOf(FileBounds.NoCharacter) >= 0) null
    else casts(column).eval(new GenericInternalRow(Array[Any](UTF8String.fromString(node.textValue))))

  // A column that is DOUBLE may have been FLOAT when the file was written: its text is the shortest that is nearest to
  // one FLOAT, which as a DOUBLE lies on either side of that text's.
  private def widened(bound: Any, farther: (Double, Double) => Double): Any = bound match {
    case value: Double => farther(value, value.toFloat.toDouble)
    case other => other
  }
}

private[catalogext] object FileBounds {
  // Stands in texts for bytes that are none, and is not in their place by order.
  private val NoCharacter = '\uFFFD'

  /** Whether bounds of the type are kept, and compare as its values do. */
  def isBounded(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampNTZType => true
    case FloatType | DoubleType | _: DecimalType => true
    case s: StringType => s.isUTF8BinaryCollation
    case _ => false
  }
}
