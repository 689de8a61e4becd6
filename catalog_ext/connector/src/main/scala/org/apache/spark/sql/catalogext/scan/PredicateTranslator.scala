package org.apache.spark.sql.catalogext.scan

import java.time.{Duration, Instant, ZoneId}

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{KeyTypes, PartitionNames}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.PredicateJson
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Translates Spark's partition filters to the contract's predicates, as far as possible.
 *
 * The result may match more partitions than the filter, never fewer: the filter is evaluated again on the returned
 * partitions. So an untranslatable part of an AND is omitted; any other makes the whole filter untranslatable.
 *
 * @param columns Spark's name of each partition column, and the table's own spelling
 * @param chars the CHAR columns in the table's own spelling. The index ignores their trailing blanks; a query that has
 *              them as STRING does not
 */
class PredicateTranslator(columns: Map[String, String], zone: ZoneId, chars: Set[String] = Set.empty)
  extends PredicateHelper {

  def translate(filters: Seq[Expression]): Option[JsonNode] = conjunction(filters.flatMap(weakened))

  private def conjunction(parts: Seq[JsonNode]): Option[JsonNode] = parts match {
    case Seq() => None
    case several => Some(PredicateJson.and(several))
  }

  /** A predicate that is true wherever `e` is true. */
  private def weakened(e: Expression): Option[JsonNode] = e match {
    case and: And => conjunction(splitConjunctivePredicates(and).flatMap(weakened))
    case or: Or => all(splitDisjunctivePredicates(or).map(weakened)).map(PredicateJson.or)
    case Tolerated(filter) => weakened(filter)
    case other => exactly(other)
  }

  /** A predicate that is equivalent to `e`, also for NULL; None if the contract has none. */
  def exactly(e: Expression): Option[JsonNode] = e match {
    case and: And => all(splitConjunctivePredicates(and).map(exactly)).map(PredicateJson.and)
    case or: Or => all(splitDisjunctivePredicates(or).map(exactly)).map(PredicateJson.or)
    case Not(child) => exactly(child).map(PredicateJson.not)
    case EqualTo(Column(c), Value(v)) => comparison("=", c, v)
    case EqualTo(Value(v), Column(c)) => comparison("=", c, v)
    case EqualNullSafe(Column(c), Value(v)) => comparison("<=>", c, v)
    case EqualNullSafe(Value(v), Column(c)) => comparison("<=>", c, v)
    case LessThan(Column(c), Value(v)) => ordered("<", c, v)
    case LessThan(Value(v), Column(c)) => ordered(">", c, v)
    case LessThanOrEqual(Column(c), Value(v)) => ordered("<=", c, v)
    case LessThanOrEqual(Value(v), Column(c)) => ordered(">=", c, v)
    case GreaterThan(Column(c), Value(v)) => ordered(">", c, v)
    case GreaterThan(Value(v), Column(c)) => ordered("<", c, v)
    case GreaterThanOrEqual(Column(c), Value(v)) => ordered(">=", c, v)
    case GreaterThanOrEqual(Value(v), Column(c)) => ordered("<=", c, v)
    case In(Column(c), items) if items.nonEmpty && items.forall(Value.unapply(_).isDefined) =>
      in(c, items.map { case Value(v) => v })
    case InSet(Column(c), items) if items.nonEmpty => in(c, items.toSeq.map(Literal(_, c.dataType)))
    case IsNull(Column(c)) => Some(PredicateJson.isNull(columns(c.name)))
    case IsNotNull(Column(c)) => Some(PredicateJson.isNotNull(columns(c.name)))
    case StartsWith(Column(c), Value(v)) if v.value != null => comparison("starts_with", c, v)
    case EndsWith(Column(c), Value(v)) if v.value != null => comparison("ends_with", c, v)
    case Contains(Column(c), Value(v)) if v.value != null => comparison("contains", c, v)
    case Like(Column(c), Value(v), '\\') if PredicateTranslator.isPattern(v) => comparison("like", c, v)
    case Tolerated(filter) => exactly(filter)
    // A boolean key that stands alone as a condition: compare it with true.
    case Column(c) if c.dataType == BooleanType => comparison("=", c, Literal.TrueLiteral)
    case Literal(true, BooleanType) => Some(PredicateJson.True)
    case Literal(false, BooleanType) => Some(PredicateJson.False)
    case _ => None
  }

  private def all(parts: Seq[Option[JsonNode]]): Option[Seq[JsonNode]] =
    Option.when(parts.forall(_.isDefined))(parts.flatten)

  private def comparison(op: String, column: Attribute, value: Literal): Option[JsonNode] =
    canonical(column, value).map(PredicateJson.comparison(op, columns(column.name), _))

  /**
   * In Spark NaN is greater than all numbers; a database may order it differently. So floating keys are not compared by
   * order. TIMESTAMP keys are not compared by order near a clock change; see `orderIsLocal`.
   */
  private def ordered(op: String, column: Attribute, value: Literal): Option[JsonNode] = (column.dataType, value) match {
    case (FloatType | DoubleType, _) => None
    case (_, Literal(micros: Long, TimestampType)) if !orderIsLocal(micros) => None
    case _ => comparison(op, column, value)
  }

  private def in(column: Attribute, values: Seq[Literal]): Option[JsonNode] = {
    lazy val texts = values.map(canonical(column, _))
    if (values.length > PredicateTranslator.MostValues || texts.contains(None)) None
    else Some(PredicateJson.in(columns(column.name), texts.flatten))
  }

  private def canonical(column: Attribute, value: Literal): Option[JsonNode] = value match {
    case Literal(s: UTF8String, _) if chars(columns(column.name)) && s.trimRight() != s => None
    case Literal(null, _) => Some(Null)
    case Literal(micros: Long, TimestampType) if !hasOneLocalTime(micros) => None
    // Do not send strings that are not valid UTF-8: JSON would replace the invalid bytes.
    case Literal(bytes: UTF8String, _) if !bytes.isValid => None
    case Literal(bytes: Array[Byte], BinaryType) if !UTF8String.fromBytes(bytes).isValid => None
    case Literal(_: UTF8String, _) | Literal(_, _: AtomicType) =>
      Some(text(PartitionNames.text(value, zone.getId).eval().toString))
    case _ => None
  }

  /**
   * Whether instants around this time have the same order as their local times, by which the index orders TIMESTAMP
   * keys. Not so near a clock change; there Spark evaluates the comparison.
   */
  private def orderIsLocal(micros: Long): Boolean = {
    val rules = zone.getRules
    rules.isFixedOffset || {
      val instant: Instant = DateTimeUtils.microsToInstant(micros)
      val change = rules.nextTransition(instant.minus(PredicateTranslator.NearClockChange))
      change == null || change.getInstant.isAfter(instant.plus(PredicateTranslator.NearClockChange))
    }
  }

  /**
   * Whether the keys with this instant are exactly those with its local time, by which the index compares TIMESTAMP
   * keys. Not so between a clock change and as much later as the clock was changed by. After clocks were set back, the
   * local times of that interval are repeated, and a key with one of them has the earlier instant. After clocks were set
   * forward, the omitted local times have the instants of that interval too.
   */
  private def hasOneLocalTime(micros: Long): Boolean = {
    val rules = zone.getRules
    rules.isFixedOffset || {
      val instant: Instant = DateTimeUtils.microsToInstant(micros)
      // Pass the next instant, because previousTransition excludes a change at its argument.
      val change = rules.previousTransition(instant.plusNanos(1))
      change == null || !change.getInstant.plus(change.getDuration.abs).isAfter(instant)
    }
  }

  private object Column {
    def unapply(e: Expression): Option[Attribute] = e match {
      case a: Attribute if columns.contains(a.name) && KeyTypes.isCompared(a.dataType) => Some(a)
      case _ => None
    }
  }

  private object Value {
    def unapply(e: Expression): Option[Literal] = e match {
      case l: Literal => Some(l)
      case _ => None
    }
  }
}

object PredicateTranslator {
  /** The names of a table's CHAR partition columns. */
  def chars(keys: StructType): Set[String] = keys.filter(_.dataType.isInstanceOf[CharType]).map(_.name).toSet

  /** Whether a LIKE pattern uses only escapes that both Spark and the contract have; Spark fails for any other. */
  private def isPattern(pattern: Literal): Boolean =
    pattern.value != null && pattern.value.toString.matches("(?s)([^\\\\]|\\\\[%_\\\\])*")

  private val NearClockChange = Duration.ofDays(2)

  // Do not send longer lists of values, such as a join's millions: the index query would cost more than the excluded
  // partitions save.
  private val MostValues = 10000
}
