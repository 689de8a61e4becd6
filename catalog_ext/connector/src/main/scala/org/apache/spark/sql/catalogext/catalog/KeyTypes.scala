package org.apache.spark.sql.catalogext.catalog

import org.apache.spark.sql.types._

/**
 * What the index can say of partition columns, by their types; what differs is evaluated by Spark. The service has its
 * own list of the first, and `tests/contract/key_types.json` holds both to one answer.
 */
object KeyTypes {
  /** Whether the index distinguishes values exactly where Spark does: it does not for -0.0 and 0.0, or blanks at the end. */
  def isExact(dataType: DataType): Boolean = dataType match {
    case _: CharType | _: VarcharType => false
    case s: StringType => isBinary(s)
    case ByteType | ShortType | IntegerType | LongType | BooleanType | DateType | TimestampType | TimestampNTZType => true
    case _: DecimalType => true
    case _ => false
  }

  /** Whether aggregates of the values can be made of what the index says of each group. */
  def isAnswered(dataType: DataType): Boolean = dataType match {
    // Groups are distinguished by equality, and an array of bytes is equal to itself alone.
    case FloatType | DoubleType | BinaryType => false
    case other => isCompared(other)
  }

  /** Whether the index compares values as Spark does. */
  def isCompared(dataType: DataType): Boolean = dataType match {
    case s: StringType => isBinary(s)
    case _: AtomicType => true
    case _ => false
  }

  // Another collation than the binary one compares otherwise than the index does.
  private def isBinary(s: StringType): Boolean = s.isUTF8BinaryCollation
}
