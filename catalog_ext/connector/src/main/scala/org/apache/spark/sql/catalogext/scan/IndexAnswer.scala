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

/** An aggregation that the index has answered, as a scan of rows without files. */
class IndexAnswer(name: String, override val readSchema: StructType, override val rows: Array[InternalRow])
  extends LocalScan {
  override def description(): String = s"$name answered by the index: ${rows.length} rows"
}

/**
 * Answers aggregations from the index: over partition columns, and counts, minima and maxima of data columns whose
 * statistics are known for each file. An aggregation is answered completely or not at all. Unknown row counts are read
 * from footers when the query runs; everything else that requires files is left to a scan.
 *
 * The service returns groups of partitions. Spark's own filters are evaluated on their values, and values that are
 * equal in Spark are merged.
 *
 * @param learns whether row counts from footers are recorded
 */
class IndexAnswers(
    name: String, index: PlannedFileIndex, columns: StructType, filters: Seq[Expression], learns: Boolean) {
  private val keys = index.keys
  // The data columns whose statistics are needed for each file.
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

  /**
   * The position of a partition column whose values in the index are equal exactly if they are equal in Spark; None for
   * any other expression.
   */
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

  /** The position in `fields` of a data column that may have statistics; None for any other expression. */
  private def column(e: V2Expression): Option[Int] = e match {
    case reference: NamedReference if reference.fieldNames().length == 1 =>
      columns.find(field => SQLConf.get.resolver(field.name, reference.fieldNames().head))
        .filter(field => FileBounds.isBounded(field.dataType)).map { field =>
          if (!fields.contains(field)) fields += field
          fields.indexOf(field)
        }
    case _ => None
  }

  /** The rows of the answer; None if the index does not have the needed values or statistics. */
  private def rowsFor(grouping: Seq[Int], functions: Seq[KeyFunction]): Option[AnswerRows] = {
    val counted = functions.exists(_.countsRows)
    val extremes = functions.collect { case extreme: Extreme => extreme }
    val ofFiles = fields.nonEmpty
    // Unknown row counts may be read from footers later. Footers give row counts only, and only files of the table's
    // own format are read.
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
 * The rows of an answer, to which groups are added one by one; the groups themselves are not kept. Very large answers
 * are given up, because the driver would keep them, for EXPLAIN too.
 *
 * @param most the maximum number of rows and of values to be counted
 * @param mayCount whether groups with unknown row counts may be counted later; their values then count towards `most`
 *                 now
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
  // Once this is false, no further group is read: the answer is given up.
  private var isKnown = true
  private var uncounted = false
  /** Tracks which key values have rows, if the answer depends only on that and on no row count. */
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

  /** Whether only unknown row counts prevent the answer. */
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

  /** The rows of the answer; None if the row count of a group is unknown or there are too many rows. */
  def answered: Option[Array[InternalRow]] = Option.when(isKnown && (!uncounted || presence.isKnown)) {
    found.iterator.map { case (values, results) =>
      new GenericInternalRow((values ++ results.map(_.result)).toArray[Any]): InternalRow
    }.toArray
  }
}

private object AnswerRows {
  /** The row of an aggregation without GROUP BY, before any group was added. */
  def uncounted: AnswerRows = {
    val rows = new AnswerRows(new StructType, new PartitionFilter(new StructType, Nil), Nil, Nil, mayCount = true)
    rows.take(PartitionGroup(0, "", InternalRow.empty, 0, 0, 0, None))
    rows
  }
}

object IndexAnswers {
  val Setting = "index-answers"

  /** Maximum number of rows of an answer, and of values to be counted. */
  val MostValues = 100000

  /** Formats for which the options of a read cannot change the number of rows. */
  val Formats = Set("parquet", "orc")

  /** Whether a read skips unreadable files; its row count is then unknown in advance. */
  def skipsFiles(options: CaseInsensitiveStringMap): Boolean = {
    val source = new FileSourceOptions(CaseInsensitiveMap(options.asCaseSensitiveMap().asScala.toMap))
    source.ignoreMissingFiles || source.ignoreCorruptFiles
  }

  /**
   * Whether bounds are actual values of the file with every writer. Bounds of strings may be truncated, and NaN may be
   * missing.
   */
  private def hasExactBounds(dataType: DataType): Boolean = dataType match {
    case _: StringType | FloatType | DoubleType => false
    case other => FileBounds.isBounded(other)
  }

  /** Whether equal values of the type are identical, so that groups can be merged: no NaN, no -0.0, no collation. */
  def isAnswered(dataType: DataType): Boolean = KeyTypes.isAnswered(dataType)
}

/**
 * An aggregate function of a query, over a partition column (`key` is its position), over a data column, or over rows.
 */
private sealed trait KeyFunction {
  def key: Option[Int]
  def dataType: DataType
  /** Whether the number of rows matters, and not only whether there are any. */
  def countsRows: Boolean
  /** Whether the group has the needed statistics. */
  def knows(group: PartitionGroup): Boolean = true
  def accumulator: Accumulator
}

private trait Accumulator {
  /** Adds a group to the result. Returns whether the function has to keep one more value (for a DISTINCT count). */
  def add(group: PartitionGroup): Boolean
  def result: Any
}

/** Counts rows, or the values that are not NULL of a key or a data column. For a data column each group is one file. */
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

  /** Whether the index orders the values as Spark does. It orders TIMESTAMP by local time. */
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
 * The values of partition columns that have rows, for an answer that needs no row counts (such as DISTINCT, min or max
 * of a key). One partition with rows is enough for a value.
 *
 * @param groups the positions of keys whose values belong together; Nil for an answer that counts rows
 */
private[scan] class KeyPresence(keys: StructType, groups: Seq[Seq[Int]]) {
  private type Value = (Int, Seq[Any])
  private val present = mutable.HashSet.empty[Value]
  private val unknown = mutable.HashSet.empty[Value]
  private var tracked = groups.nonEmpty

  /**
   * Whether values are tracked: not for an answer that counts rows, and not for too many values, which would exhaust
   * the driver's memory.
   */
  def isTracked: Boolean = tracked

  /** Records that a partition with these values has rows. */
  def add(values: InternalRow): Unit = note(present, values)

  /** Records that it is unknown whether a partition with these values has rows. */
  def addUnknown(values: InternalRow): Unit = note(unknown, values)

  /** The values of a partition for which no partition with rows has been found yet. */
  def missing(values: InternalRow): Seq[(Int, Seq[Any])] = of(values).filterNot(present)

  /** Whether each value of the partitions is known to have rows. */
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
