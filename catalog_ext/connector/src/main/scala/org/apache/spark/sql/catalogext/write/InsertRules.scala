package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, KeyZone, PartitionColumns, PartitionNames,
  ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.commands.PartitionClauses
import org.apache.spark.sql.catalogext.release.{Inserts, OmittedColumns}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.session.IndexedNames
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StringType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * Records which partition columns an INSERT sets to constants, before Spark turns the statement into a command without
 * that information. The record is passed in the options of the target.
 */
class MarkInserts(session: SparkSession) extends Rule[LogicalPlan] {
  private val names = new IndexedNames(session)

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case insert: InsertIntoStatement => insert.table match {
      case target: UnresolvedRelation if insert.ifPartitionNotExists && isIndexed(target) =>
        unlessThere(insert, target)
      case target: UnresolvedRelation if isUnmarked(target) =>
        val constants = insert.partitionSpec.map { case (key, value) => key -> value.map(constant) }
        val mark = if (Inserts.replaces(insert)) InsertMarks.ReplacesRows
        else Map(WriteMarks.Specification ->
          InsertMarks.write(constants.collect { case (key, Some(value)) => key -> value }))
        val listed = Option.when(insert.userSpecifiedCols.nonEmpty)(
          InsertMarks.Listed -> InsertMarks.writeNames(insert.userSpecifiedCols))
        val query = if (insert.byName) GivenColumns.of(insert.query) else insert.query
        OmittedColumns.filled(insert, columnsOf(target))
          .copy(table = marked(target, mark ++ listed), partitionSpec = constants, query = query)
      case _ => insert
    }
    case ReplaceWhere(overwrite, target) if isUnmarked(target) =>
      overwrite.copy(table = marked(target, InsertMarks.ReplacesRows))
    case write: V2WriteCommand if write.isByName && isIndexed(write) => write.withNewQuery(GivenColumns.of(write.query))
  }

  private def isIndexed(write: V2WriteCommand): Boolean = write.table match {
    case target: UnresolvedRelation => isIndexed(target)
    case relation: DataSourceV2Relation => relation.table.isInstanceOf[CatalogExtTable]
    case _ => false
  }

  /**
   * Matches INSERT INTO ... REPLACE WHERE in releases before 4.3, in which Spark parses it as a command of its own.
   * `DataFrameWriterV2.overwrite`, which has the same command, matches columns by name.
   */
  private object ReplaceWhere {
    def unapply(plan: LogicalPlan): Option[(OverwriteByExpression, UnresolvedRelation)] = plan match {
      case overwrite: OverwriteByExpression if !overwrite.isByName => overwrite.table match {
        case target: UnresolvedRelation => Some((overwrite, target))
        case _ => None
      }
      case _ => None
    }
  }

  private def columnsOf(target: UnresolvedRelation): StructType =
    names.table(names.onPath(target.multipartIdentifier)).fold(new StructType)(_.metadata.writeSchema)

  private def isUnmarked(target: UnresolvedRelation): Boolean =
    !target.options.containsKey(WriteMarks.Specification) && isIndexed(target)

  private def isIndexed(target: UnresolvedRelation): Boolean = names.areIndexed(names.onPath(target.multipartIdentifier))

  private def marked(target: UnresolvedRelation, mark: Map[String, String]): UnresolvedRelation =
    target.copy(options = InsertMarks.added(target.options, mark))

  /**
   * INSERT OVERWRITE ... PARTITION ... IF NOT EXISTS does nothing if the partition exists. Otherwise the write is based
   * on the version in which the partition was not found: Spark resolves the target later, perhaps at a version in which
   * another writer has added the partition, and the commit must detect that as a conflict.
   */
  private def unlessThere(insert: InsertIntoStatement, target: UnresolvedRelation): LogicalPlan = {
    names.table(names.onPath(target.multipartIdentifier)) match {
      case Some(table) if isThere(table, insert.partitionSpec, target.options) =>
        NoopCommand("INSERT OVERWRITE", target.multipartIdentifier)
      case Some(table) =>
        val base = BaseVersion(table.metadata.tableId, table.metadata.version)
        insert.copy(table = marked(target, Map(WriteMarks.Base -> base.toText)), ifPartitionNotExists = false)
      // Spark says that there is no such table.
      case None => insert
    }
  }

  /** Whether a partition exists that the rows of an INSERT with this specification and these options would go to. */
  private def isThere(
      table: CatalogExtTable, spec: Map[String, Option[String]], options: CaseInsensitiveStringMap): Boolean = {
    val zone = KeyZone.of(table.metadata, SQLConf.get, options)
    val constants = spec.collect { case (key, Some(value)) => key -> constant(value) }
    val clause = PartitionClauses.equalities(Constants.named(table.metadata, constants, zone, SQLConf.get))
    table.partitions.list(Seq(clause), limit = Some(1), clauseZone = zone).nonEmpty
  }

  /** The value of a constant in a PARTITION clause. As in Hive, the default partition's name means NULL. */
  private def constant(value: String): String =
    if (value == ExternalCatalogUtils.DEFAULT_PARTITION_NAME) null else value
}

/**
 * Gives an INSERT into tables of this connector the semantics of `docs/spec/semantics.md`, regardless of the session's
 * default: with dynamic keys an overwrite replaces the partitions that receive rows, and a fully static partition is
 * replaced even if there are no rows.
 */
class ResolveInserts extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case Undecided(append: AppendData, insert) =>
      insert.check()
      append.copy(table = insert.target, writeOptions = insert.options(None, keeps = false))

    case Undecided(overwrite: OverwriteByExpression, insert) =>
      if (insert.replaces) {
        insert.checkOmitted()
        overwrite.copy(table = insert.target, writeOptions = insert.options(Some("REPLACE WHERE"), keeps = false))
      } else if (!insert.marked && (overwrite.isByName || overwrite.deleteExpr != Literal.TrueLiteral)) {
        // DataFrameWriterV2.overwrite has a condition for what it replaces, so the kind stays.
        insert.checkOmitted()
        overwrite.copy(table = insert.target, writeOptions = insert.options(Some("OVERWRITE"), keeps = false))
      } else insert.overwrite(overwrite)

    case Undecided(overwrite: OverwritePartitionsDynamic, insert) =>
      if (insert.marked) insert.overwrite(overwrite)
      else {
        insert.check()
        overwrite.copy(table = insert.target, writeOptions = insert.options(None, keeps = false))
      }
  }

  private object Undecided {
    def unapply(plan: LogicalPlan): Option[(V2WriteCommand, Insert)] = plan match {
      case append: AppendData => insert(append, append.writeOptions)
      case overwrite: OverwriteByExpression => insert(overwrite, overwrite.writeOptions)
      case overwrite: OverwritePartitionsDynamic => insert(overwrite, overwrite.writeOptions)
      case _ => None
    }

    private def insert(write: V2WriteCommand, options: Map[String, String]): Option[(V2WriteCommand, Insert)] =
      write.table match {
        case relation: DataSourceV2Relation if !WriteMarks.decided(options) => relation.table match {
          case table: CatalogExtTable =>
            val given = GivenColumns.names(write.query)
            Some((write.withNewQuery(GivenColumns.removed(write.query)), new Insert(relation, table, given, options)))
          case _ => None
        }
        case _ => None
      }
  }
}

/**
 * The query of a write by name, as the statement has it. Spark adds columns that it omits above this node, with NULL in
 * them, so that only the output of this node shows which columns the statement gives. `ResolveInserts` removes the node.
 */
private case class GivenColumns(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

private object GivenColumns {
  def of(query: LogicalPlan): LogicalPlan = query match {
    case given: GivenColumns => given
    case other => new GivenColumns(other)
  }

  /** The names of the columns that the query of a write by name has; None for other writes. */
  def names(query: LogicalPlan): Option[Seq[String]] =
    query.collectFirst { case given: GivenColumns => given.output.map(_.name) }

  def removed(query: LogicalPlan): LogicalPlan = query.resolveOperators { case GivenColumns(child) => child }
}

/**
 * A write to a table of this connector, with the record of `MarkInserts`.
 *
 * @param given the columns that a write by name gives; None for other writes
 */
private class Insert(
    relation: DataSourceV2Relation,
    table: CatalogExtTable,
    given: Option[Seq[String]],
    writeOptions: Map[String, String]) {
  private val conf = SQLConf.get
  private val keys = table.metadata.partitionColumns
  private val note = Option(relation.options.get(WriteMarks.Specification))
  private val values: Map[String, String] = note.fold(Map.empty[String, String])(InsertMarks.read)
  private val base = Option(relation.options.get(WriteMarks.Base)).map(BaseVersion.of)
  private val static = keys.map(key => values.find { case (name, _) => conf.resolver(name, key.name) })
  private val staticKeys = static.count(_.isDefined)
  private val allStatic = staticKeys == keys.length

  def marked: Boolean = note.isDefined
  def replaces: Boolean = relation.options.containsKey(InsertMarks.Replaces)
  /** The relation without options, because Spark requires the options of a write in one place. */
  def target: DataSourceV2Relation = relation.copy(options = CaseInsensitiveStringMap.empty())

  private val userOptions: Map[String, String] =
    WriteMarks.without(relation.options).asCaseSensitiveMap().asScala.toMap ++ writeOptions

  def options(operation: Option[String], keeps: Boolean): Map[String, String] = userOptions ++
    WriteMarks(operation, staticKeys, Option.when(keeps && keys.nonEmpty)(partitionName),
      Constants.named(table.metadata, values, zone, conf), base).toOptions

  /** The command that replaces what INSERT OVERWRITE replaces by the rules of this connector. */
  def overwrite(write: V2WriteCommand): LogicalPlan = {
    check()
    if (allStatic || userChoseStatic) {
      Inserts.overwrite(write, target, staticCondition, options(None, keeps = allStatic))
    } else Inserts.overwritePartitions(write, target, options(None, keeps = false))
  }

  def check(): Unit = {
    checkConstants()
    checkKeys()
    checkOmitted()
  }

  /**
   * Refuses a write that gives no value for a virtual partition column without a DEFAULT. `SELECT *` omits such columns,
   * so that its result, written back by name, would go to the default partition without an error. Columns that
   * `SELECT *` shows get NULL, as in Spark.
   */
  def checkOmitted(): Unit = if (!table.metadata.declared) {
    val listed = Option(relation.options.get(InsertMarks.Listed)).map(InsertMarks.readNames)
    listed.orElse(given).foreach { columns =>
      val omitted = keys.filter { key =>
        key.getCurrentDefaultValue().isEmpty && !(columns ++ values.keys).exists(conf.resolver(_, key.name))
      }
      if (omitted.nonEmpty) throw refused(
        s"it has no value for the partition columns ${omitted.map(_.name).mkString(", ")}, which SELECT * omits: add " +
          "them to the columns of the write; write NULL to add rows to the default partition")
    }
  }

  /**
   * Lets the service check invalid and empty constants now: it rejects them with a clear error, before Spark fails or
   * converts an invalid one to NULL, and before the query runs. Spark checks constants that the service accepts; all
   * constants are checked again when the write begins.
   */
  private def checkConstants(): Unit =
    if (constants.exists { case (column, value) => value != null && (value.isEmpty || cast(column, value, EvalMode.TRY) == null) }) {
      table.partitions.list(Seq(PartitionClauses.equalities(values)), limit = Some(0))
    }

  /** Checks the dynamic partition columns against Hive's settings, such as `hive.exec.dynamic.partition.mode`. */
  private def checkKeys(): Unit = if (!allStatic) {
    val dynamic = keys.fieldNames.zip(static).collect { case (name, None) => name }
    static.zipWithIndex.collectFirst {
      case (Some(_), i) if static.take(i).contains(None) =>
        throw refused(
          s"the static partition column '${keys(i).name}' comes after the dynamic one '${keys(static.indexOf(None)).name}' " +
            s"in the table's order (${keys.fieldNames.mkString(", ")}), and the rows that go below a directory cannot be " +
            "known before it: give constants to leading partition columns only")
    }
    if (!settings.flag(InsertMarks.Dynamic)) throw refused(
      s"${InsertMarks.Dynamic} is false, and its rows decide the partition columns ${dynamic.mkString(", ")}: give " +
        s"them constants in PARTITION (...), or SET ${InsertMarks.Dynamic}=true")
    if (settings.text(InsertMarks.Mode).contains("strict") && staticKeys == 0) throw refused(
      s"${InsertMarks.Mode} is strict, and its rows decide all partition columns (${dynamic.mkString(", ")}): give at " +
        s"least the first one a constant in PARTITION (...), or SET ${InsertMarks.Mode}=nonstrict")
  }

  /**
   * Whether `partitionOverwriteMode` is static. In the session catalog that is the default, as in Spark, so that
   * existing statements keep their results.
   */
  private def userChoseStatic: Boolean = settings.text("partitionOverwriteMode")
    .fold(table.catalogName == CatalogManager.SESSION_CATALOG_NAME)(_ == "static")

  /** The columns with one value for all rows, in the table's order, and their constants. */
  private def constants: Seq[(Attribute, String)] = for {
    (key, Some((_, value))) <- keys.toSeq.zip(static)
    column <- relation.output.find(_.name == key.name)
  } yield column -> value

  private def staticCondition: Expression = constants.map { case (column, value) =>
    EqualNullSafe(column, Literal(typed(column, value), column.dataType)): Expression
  }.reduceOption(And(_, _)).getOrElse(Literal.TrueLiteral)

  /** The directory name of rows with these values, as a writer builds it. */
  private def partitionName: String = keys.toSeq.zip(constants).map { case (key, (column, value)) =>
    PartitionNames.component(key, Constants.text(typed(column, value), column.dataType, zone))
  }.mkString("/")

  private lazy val zone = KeyZone.of(table.metadata, conf, new CaseInsensitiveStringMap(userOptions.asJava))

  private def typed(column: Attribute, value: String): Any =
    if (value == null) null else cast(column, value, EvalMode.ANSI)

  private def cast(column: Attribute, value: String, mode: EvalMode.Value): Any =
    Constants.cast(value, column.dataType, mode, conf)

  /** Hive's settings for dynamic partitions. */
  private lazy val settings: ResolvedSettings = ResolvedSettings.of(
    "insert", table.client, table.catalogName, table.metadata, new CaseInsensitiveStringMap(userOptions.asJava), conf)

  private def refused(why: String): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.InvalidInput, s"The INSERT into ${table.name()} is refused: $why.", Map("table" -> table.name()))
}

/** Converts the constants of an INSERT's PARTITION clause. */
private object Constants {
  /**
   * The constants as in the names of the rows' partitions, so that only Spark's cast and the writer's time zone decide
   * which partition the clause names. Values that Spark cannot cast stay as in the statement; the service rejects them.
   */
  def named(table: TableMetadata, values: Map[String, String], zone: String, conf: SQLConf): Map[String, String] = {
    values.map { case (name, value) =>
      name -> table.partitionColumns.find(key => conf.resolver(name, key.name)).fold(value)(shown(_, value, zone, conf))
    }
  }

  private def shown(key: StructField, value: String, zone: String, conf: SQLConf): String = {
    val dataType = PartitionColumns.plain(key.dataType)
    val typedValue = if (value == null) null else cast(value, dataType, EvalMode.TRY, conf)
    if (typedValue == null) value
    // Text of blanks only in a CHAR column names the default partition.
    else Some(PartitionNames.unpadded(key.dataType, text(typedValue, dataType, zone))).filter(_.nonEmpty).orNull
  }

  /** The text of a typed value in a partition name, before special characters are escaped; null for NULL. */
  def text(typedValue: Any, dataType: DataType, zone: String): String =
    Option(PartitionNames.text(Literal(typedValue, dataType), zone).eval()).map(_.toString).orNull

  def cast(value: String, dataType: DataType, mode: EvalMode.Value, conf: SQLConf): Any =
    Cast(Literal(UTF8String.fromString(value), StringType), dataType, Some(conf.sessionLocalTimeZone), mode).eval()
}

private[write] object InsertMarks {
  val Dynamic = "hive.exec.dynamic.partition"
  val Mode = "hive.exec.dynamic.partition.mode"
  /** The option that marks a statement with its own condition for what it replaces. */
  val Replaces = s"${WriteMarks.Specification}.replaces"
  val ReplacesRows: Map[String, String] = Map(WriteMarks.Specification -> "{}", Replaces -> "true")

  /** The option that holds the list of columns of an INSERT, as JSON. */
  val Listed = s"${WriteMarks.Specification}.columns"

  def write(constants: Map[String, String]): String = map(constants).toString

  def writeNames(names: Seq[String]): String = arr(names.map(text(_))).toString

  def readNames(list: String): Seq[String] = mapper.readTree(list).asScala.map(_.asText()).toSeq

  def read(note: String): Map[String, String] = mapper.readTree(note).properties().asScala
    .map(entry => entry.getKey -> (if (entry.getValue.isNull) null else entry.getValue.asText())).toMap

  def added(options: CaseInsensitiveStringMap, more: Map[String, String]): CaseInsensitiveStringMap =
    new CaseInsensitiveStringMap((options.asCaseSensitiveMap().asScala ++ more).asJava)
}
