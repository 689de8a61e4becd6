package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.KeyTypes
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, TypeUtils}
import org.apache.spark.sql.connector.expressions.{Expression => V2Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate.{AggregateFunc, Aggregation, Count, CountStar, Max, Min}
import org.apache.spark.sql.connector.read.{LocalScan, Scan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What the index knows of an aggregation, as the rows of a scan without files. */
class IndexAnswer(name: String, override val readSchema: StructType, override val rows: Array[InternalRow])
  extends LocalScan {
  override def description(): String = s"$name answered by the index: ${rows.length} rows"
}

/**
 * Answers aggregations over partition columns by the index, and counts, least and greatest values of data columns of which
 * it knows them for each file: whole or not at all. Row counts that it does not know come from footers when the query
 * runs; what else comes from files only is left to a scan.
 *
 * The service gives groups of partitions; Spark's own filters are evaluated on their values, and equal values counted
 * together, as Spark has them.
 *
 * @param learns whether what footers say is recorded
 */
class IndexAnswers(
    name: String, index: PlannedFileIndex, columns: StructType, filters: Seq[Expression], learns: Boolean) {
  private val keys = index.keys
  // The data columns of which the answer needs to know something in each file.
  private val fields = mutable.ArrayBuffer.empty[StructField]

  def answer(aggregation: Aggregation): Option[Scan] = for {
    grouping <- all(aggregation.groupByExpressions().toSeq.map(key))
    functions <- all(aggregation.aggregateExpressions().toSeq.map(function))
    found <- rowsFor(grouping, functions)
    schema = StructType(grouping.map(keys(_)) ++ functions.zipWithIndex.map { case (f, i) =>
      StructField(s"answer_$i", f.dataType)
    })
    scan <- found.answered.map(new IndexAnswer(name, schema, _)).orElse(Option.when(found.isUncounted)(
      new FooterAnswer(name, index, filters, schema, learns, grouping, functions)))
  } yield scan

  private def all[T](parts: Seq[Option[T]]): Option[Seq[T]] = Option.when(parts.forall(_.isDefined))(parts.flatten)

  /** The place of a partition column of whose values equality is that of their encodings. */
  private def key(e: V2Expression): Option[Int] = e match {
    case reference: NamedReference if reference.fieldNames().length == 1 =>
      val at = keys.indexWhere(field => SQLConf.get.resolver(field.name, reference.fieldNames().head))
      Option.when(at >= 0 && IndexAnswers.isAnswered(keys(at).dataType))(at)
    case _ => None
  }

  private def function(f: AggregateFunc): Option[KeyFunction] = f match {
    case _: CountStar => Some(CountRows)
    case count: Count if count.isDistinct => key(count.column()).map(CountValues(_))
    case count: Count => key(count.column()).map(CountKey(_)).orElse(column(count.column()).map(CountColumn(_)))
    case min: Min => extreme(min.column(), greatest = false)
    case max: Max => extreme(max.column(), greatest = true)
    case _ => None
  }

  private def extreme(e: V2Expression, greatest: Boolean): Option[KeyFunction] =
    key(e).map(at => Extreme(at, keys(at).dataType, greatest)).orElse {
      column(e).filter(at => IndexAnswers.hasExactBounds(fields(at).dataType))
        .map(at => ColumnExtreme(at, fields(at).dataType, greatest))
    }

  /** The place among `fields` of a data column that may be known. */
  private def column(e: V2Expression): Option[Int] = e match {
    case reference: NamedReference if reference.fieldNames().length == 1 =>
      columns.find(field => SQLConf.get.resolver(field.name, reference.fieldNames().head))
        .filter(field => FileBounds.isBounded(field.dataType)).map { field =>
          if (!fields.contains(field)) fields += field
          fields.indexOf(field)
        }
    case _ => None
  }

  /** What is known of the groups; None where the index cannot know enough. */
  private def rowsFor(grouping: Seq[Int], functions: Seq[KeyFunction]): Option[AnswerRows] = {
    val counted = functions.exists(_.countsRows)
    val extremes = functions.collect { case extreme: Extreme => extreme }
    val ofFiles = fields.nonEmpty
    // Footers are read of the table's own format, and for row counts alone.
    val mayCount = !ofFiles && index.table.descriptors.isEmpty
    def rows(filter: PartitionFilter) =
      new AnswerRows(keys, filter, grouping, functions, Some(IndexAnswers.MostValues), mayCount)
    def having(groups: Seq[PartitionGroup]) = {
      val known = rows(new PartitionFilter(keys, Nil))
      groups.forall(known.take)
      known
    }
    val byEnds = !ofFiles && grouping.isEmpty && extremes.nonEmpty && extremes.length == functions.length &&
      extremes.forall(_.isByIndex) && index.saysExactly(filters)
    val isWhole = grouping.isEmpty && filters.isEmpty && functions.forall(_ == CountRows)
    val isUncounted = (counted || ofFiles) && filters.isEmpty && index.table.totals.rows.isEmpty
    val isOneRow = grouping.isEmpty && !functions.exists(_.isInstanceOf[CountValues])
    if (isUncounted && !mayCount) None
    else if (isUncounted && isOneRow) Some(AnswerRows.uncounted)
    else if (isWhole && !index.hasStalenessLimit) whole.map(group => having(Seq(group)))
    else if (ofFiles) Some(index.eachFile(filters, fields.toSeq)(rows))
    else if (byEnds) ends(extremes.distinct).map(having)
    else {
      val wanted = if (counted) PartitionGroups.Rows else PartitionGroups.Presence
      Some(index.groups(filters, (grouping ++ functions.flatMap(_.key)).distinct, wanted)(rows))
    }
  }

  private def whole: Option[PartitionGroup] = {
    val totals = index.table.totals
    totals.rows.map { rows =>
      PartitionGroup(0, "", InternalRow.empty, totals.partitions, totals.files, totals.bytes, Some(rows))
    }
  }

  private def ends(extremes: Seq[Extreme]): Option[Seq[PartitionGroup]] = {
    val found = extremes.map { end =>
      index.groups(filters, Seq(end.at), end.wanted)(
        new ChosenGroups[PartitionGroup](_, identity, IndexAnswers.MostValues))
    }
    Option.when(found.forall(_.areAll))(found.flatMap(_.kept))
  }
}

/**
 * The rows of an answer, as far as it has come: no more is held of the groups than these. The driver holds them,
 * also for EXPLAIN, so an answer of very many rows is not held.
 *
 * @param most how many rows, and values that are counted, there may be
 * @param mayCount whether groups of unknown rows may be counted later: their values are counted towards `most` then
 */
private[scan] class AnswerRows(
    keys: StructType,
    filter: PartitionFilter,
    grouping: Seq[Int],
    functions: Seq[KeyFunction],
    most: Option[Int] = None,
    mayCount: Boolean = false)
  extends GroupConsumer {
  private val found = mutable.LinkedHashMap.empty[Seq[Any], Seq[Accumulator]]
  private var values = 0L
  // Never again once it is not: the source of the groups stops then, and the others never come.
  private var isKnown = true
  private var uncounted = false
  /** Which of the values have rows, where the answer asks for that alone. */
  val presence = new KeyPresence(keys,
    if (functions.exists(_.countsRows)) Nil
    else if (functions.isEmpty) Seq(grouping)
    else functions.flatMap(_.key).distinct.map(grouping :+ _))
  if (grouping.isEmpty) of(Nil)

  private def of(values: Seq[Any]) = found.getOrElseUpdate(values, functions.map(_.accumulator))

  override def take(group: PartitionGroup): Boolean = {
    if (isKnown && filter.matches(group.values)) add(group)
    isKnown
  }

  /** Whether nothing but unknown row counts keeps the answer from being known. */
  def isUncounted: Boolean = isKnown && uncounted && !presence.isKnown

  private def add(group: PartitionGroup): Unit =
    if (group.rows.isEmpty) addUnknown(group)
    else if (!group.rows.contains(0L)) {
      if (group.partitions > 0) presence.add(group.values)
      if (functions.forall(_.knows(group))) count(group) else isKnown = false
    }

  private def addUnknown(group: PartitionGroup): Unit = {
    uncounted = true
    presence.addUnknown(group.values)
    if (mayCount) count(group.copy(rows = Some(1))) else isKnown = false
  }

  private def count(group: PartitionGroup): Unit = {
    values += of(grouping.map(at => group.values.get(at, keys(at).dataType))).count(_.add(group))
    isKnown = most.forall(found.size + values <= _)
  }

  /** None where the rows of a group are not known, or where there are too many. */
  def answered: Option[Array[InternalRow]] = Option.when(isKnown && (!uncounted || presence.isKnown)) {
    found.iterator.map { case (values, results) =>
      new GenericInternalRow((values ++ results.map(_.result)).toArray[Any]): InternalRow
    }.toArray
  }
}

private object AnswerRows {
  /** Those of an answer of one row, before any group is known. */
  def uncounted: AnswerRows = {
    val rows = new AnswerRows(new StructType, new PartitionFilter(new StructType, Nil), Nil, Nil, mayCount = true)
    rows.take(PartitionGroup(0, "", InternalRow.empty, 0, 0, 0, None))
    rows
  }
}

object IndexAnswers {
  val Setting = "index-answers"

  /** How many rows, and values that are counted, an answer may have. */
  val MostValues = 100000

  /** Those whose rows do not depend on the options of the read. */
  val Formats = Set("parquet", "orc")

  /** Whether a read goes on without files that it cannot read: then its rows are unknown before it. */
  def skipsFiles(options: CaseInsensitiveStringMap): Boolean = {
    val source = new FileSourceOptions(CaseInsensitiveMap(options.asCaseSensitiveMap().asScala.toMap))
    source.ignoreMissingFiles || source.ignoreCorruptFiles
  }

  /** Whether the bounds of a file are values of it, by every writer: texts may be cut short, and NaN left out. */
  private def hasExactBounds(dataType: DataType): Boolean = dataType match {
    case _: StringType | FloatType | DoubleType => false
    case other => FileBounds.isBounded(other)
  }

  /** Whether equality of the type is plain: neither NaN, -0.0 nor collations. */
  def isAnswered(dataType: DataType): Boolean = KeyTypes.isAnswered(dataType)
}

/** An aggregate function over a partition column, at `key` among them, over a data column, or over rows. */
private sealed trait KeyFunction {
  def key: Option[Int]
  def dataType: DataType
  /** Whether it matters how many rows there are, and not only whether there are some. */
  def countsRows: Boolean
  /** Whether the group says what is needed of it. */
  def knows(group: PartitionGroup): Boolean = true
  def accumulator: Accumulator
}

private trait Accumulator {
  /** Whether it holds one value more. */
  def add(group: PartitionGroup): Boolean
  def result: Any
}

/** Of rows, or of the values of a key, or of a data column (the groups are files then) that are no NULLs. */
private sealed abstract class CountedRows(count: PartitionGroup => Long) extends KeyFunction {
  override def key: Option[Int] = None
  override def dataType: DataType = LongType
  override def countsRows: Boolean = true
  override def accumulator: Accumulator = new Accumulator {
    private var sum = 0L
    override def add(group: PartitionGroup): Boolean = {
      sum += count(group)
      false
    }
    override def result: Any = sum
  }
}

private case object CountRows extends CountedRows(_.rows.get)

private case class CountKey(at: Int) extends CountedRows(group => if (group.values.isNullAt(at)) 0 else group.rows.get) {
  override def key: Option[Int] = Some(at)
}

private case class CountColumn(at: Int) extends CountedRows(group => group.rows.get - group.bounds.get.nulls(at)) {
  override def knows(group: PartitionGroup): Boolean = group.bounds.get.nulls(at) >= 0
}

private case class ColumnExtreme(at: Int, dataType: DataType, greatest: Boolean) extends KeyFunction {
  override def key: Option[Int] = None
  override def countsRows: Boolean = false
  override def knows(group: PartitionGroup): Boolean = group.bounds.get.isAllNull(at) || bound(group) != null
  private def bound(group: PartitionGroup): Any =
    if (greatest) group.bounds.get.maximum(at) else group.bounds.get.minimum(at)
  override def accumulator: Accumulator = new MostExtreme(dataType, greatest, bound)
}

private case class CountValues(at: Int) extends KeyFunction {
  override def key: Option[Int] = Some(at)
  override def dataType: DataType = LongType
  override def countsRows: Boolean = false
  override def accumulator: Accumulator = new Accumulator {
    private val values = mutable.HashSet.empty[Any]
    override def add(group: PartitionGroup): Boolean =
      !group.values.isNullAt(at) && values.add(group.values.asInstanceOf[GenericInternalRow].values(at))
    override def result: Any = values.size.toLong
  }
}

private case class Extreme(at: Int, dataType: DataType, greatest: Boolean) extends KeyFunction {
  override def key: Option[Int] = Some(at)
  override def countsRows: Boolean = false
  def wanted: String = if (greatest) PartitionGroups.Greatest else PartitionGroups.Least

  /** Whether the index has the values in Spark's order: it has TIMESTAMP by local times. */
  def isByIndex: Boolean = dataType != TimestampType

  override def accumulator: Accumulator = new MostExtreme(dataType, greatest, _.values.get(at, dataType))
}

private class MostExtreme(dataType: DataType, greatest: Boolean, value: PartitionGroup => Any) extends Accumulator {
  private val ordering = TypeUtils.getInterpretedOrdering(dataType)
  private var found: Any = _
  override def add(group: PartitionGroup): Boolean = {
    val next = value(group)
    if (next != null && (found == null || (ordering.compare(next, found) > 0) == greatest)) found = next
    false
  }
  override def result: Any = found
}

/**
 * Which values of keys have rows, for an answer that asks no more than that: of each value one partition with rows is
 * enough, whatever the others have.
 *
 * @param groups the places of the keys whose values belong together; nothing for an answer that counts rows
 */
private[scan] class KeyPresence(keys: StructType, groups: Seq[Seq[Int]]) {
  private type Value = (Int, Seq[Any])
  private val present = mutable.HashSet.empty[Value]
  private val unknown = mutable.HashSet.empty[Value]
  private var tracked = groups.nonEmpty

  /** Whether values are distinguished: not of an answer that counts rows, and not of very many, which would fill the driver. */
  def isTracked: Boolean = tracked

  /** A partition, or some, with these values has rows. */
  def add(values: InternalRow): Unit = note(present, values)

  /** Of a partition with these values it is not known whether it has rows. */
  def addUnknown(values: InternalRow): Unit = note(unknown, values)

  /** Those of the values of a partition of which no partition is known to have rows. */
  def missing(values: InternalRow): Seq[(Int, Seq[Any])] = of(values).filterNot(present)

  /** Whether each value that may be there is known to be. */
  def isKnown: Boolean = tracked && unknown.forall(present)

  private def of(values: InternalRow): Seq[Value] = groups.zipWithIndex.map { case (places, group) =>
    (group, places.map(at => values.get(at, keys(at).dataType)))
  }

  private def note(among: mutable.HashSet[Value], values: InternalRow): Unit = if (tracked) {
    among ++= of(values)
    if (present.size + unknown.size > IndexAnswers.MostValues * groups.length) {
      tracked = false
      present.clear()
      unknown.clear()
    }
  }
}
