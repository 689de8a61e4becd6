package org.apache.spark.sql.catalogext.session

import java.util.Locale

import java.util

import org.apache.spark.sql.catalogext.catalog.CatalogOptions
import org.apache.spark.sql.catalogext.CatalogExtSource
import org.apache.spark.sql.catalogext.commands.{ServiceProcedure, SessionTable}
import org.apache.spark.sql.catalogext.release.Definitions
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter}
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogV2Util, Column, Identifier, StagedTable,
  SupportsWrite, Table, TableCapability, TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * A table of another data source that a CREATE TABLE ... AS in the session catalog makes. Spark's own catalog cannot
 * stage: the table is created at once, and dropped again when the query fails, as Spark does it without us.
 */
class DelegatedTable(own: TableCatalog, ident: Identifier, table: Table) extends StagedTable with SupportsWrite {
  override def name(): String = table.name()
  override def columns(): Array[Column] = table.columns()
  // Spark 4.0 has no other.
  override def schema(): StructType = CatalogV2Util.v2ColumnsToStructType(columns())
  override def partitioning(): Array[Transform] = table.partitioning()
  override def properties(): util.Map[String, String] = table.properties()
  override def capabilities(): util.Set[TableCapability] = table.capabilities()

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = table match {
    case target: SupportsWrite => target.newWriteBuilder(info)
    case _ => throw ConnectorErrors.notSupported(s"Table ${name()} cannot be written: its data source only reads.")
  }

  override def commitStagedChanges(): Unit = ()
  override def abortStagedChanges(): Unit = own.dropTable(ident)
}

object DelegatedTable {
  def create(own: TableCatalog, ident: Identifier, info: TableInfo): DelegatedTable = {
    // V2SessionCatalog gives null where Spark is not going to look at the table.
    val created = Option(Definitions.create(own, ident, info)).getOrElse(own.loadTable(ident))
    new DelegatedTable(own, ident, created)
  }
}

/**
 * `register_table` in the session catalog: the service learns where a table of Spark's own lies that has the name,
 * because the registered one would hide it. One at the same location is the same data, and is taken over.
 */
class GuardedRegistration(procedure: ServiceProcedure, own: TableCatalog, prepareNamespace: Array[String] => Unit)
  extends BoundProcedure {
  override def name(): String = procedure.name()
  override def description(): String = procedure.description()
  override def parameters(): Array[ProcedureParameter] = procedure.parameters
  override def isDeterministic: Boolean = procedure.isDeterministic

  override def call(input: InternalRow): java.util.Iterator[Scan] = {
    val table = name(input).flatMap(identifier)
    table.foreach(ident => prepareNamespace(ident.namespace()))
    procedure.call(input, table.filter(own.tableExists).map { there =>
      SessionTable(there, Option(own.loadTable(there).properties().get(TableCatalog.PROP_LOCATION)))
    })
  }

  private def name(input: InternalRow): Option[String] =
    Some(parameters().indexWhere(_.name() == "table")).filter(i => i >= 0 && !input.isNullAt(i))
      .map(input.getUTF8String(_).toString)

  /** None for a text that names no table, which the procedure itself says. */
  private def identifier(text: String): Option[Identifier] =
    try CatalystSqlParser.parseMultipartIdentifier(text).takeRight(2) match {
      case Seq(namespace, table) => Some(Identifier.of(Array(namespace), table))
      case _ => None
    } catch { case _: ParseException => None }
}

/**
 * `create.formats` and `create.databases`: which CREATE TABLE of Spark's makes one of ours in the session catalog. They
 * are the session's, so that SET changes them, and nothing is asked for them of the service.
 */
object CreatedFormats {
  private val Formats = "create.formats"
  private val Databases = "create.databases"
  /** The formats that tables of ours can have. */
  val Known: Set[String] = Set("parquet", "orc", "csv", "json", "text")
  private val Everything = "*"
  private val Nothing = "none"

  /** The format of ours that a statement asks for, if a table of it in this database is to be one. */
  def of(ident: Identifier, spec: UnresolvedTableSpec): Option[String] = said(spec).filter(makes(ident, _))

  /** Whether a table of this format, by Spark's name, is to be one of ours. */
  def makes(ident: Identifier, format: String): Boolean = {
    val conf = SQLConf.get
    val formats = words(conf, Formats, Nothing)
    formats.find(word => !Known(word) && word != Everything).foreach { other =>
      throw CatalogOptions.invalid(CatalogManager.SESSION_CATALOG_NAME, Formats,
        s"names '$other', which is no format of tables: give some of ${Known.toSeq.sorted.mkString(", ")} with commas " +
          s"between them, $Everything for all, or $Nothing")
    }
    val name = format.toLowerCase(Locale.ROOT)
    Known(name) && has(formats, name) && ident.namespace().length == 1 &&
      has(words(conf, Databases, Everything), ident.namespace().head.toLowerCase(Locale.ROOT))
  }

  /** What USING or STORED AS name, otherwise what Spark would take. Other clauses of Hive's are about its own tables. */
  private def said(spec: UnresolvedTableSpec): Option[String] = (spec.provider, spec.serde) match {
    case (Some(provider), _) => Some(provider).filterNot(name => CatalogExtSource.isProvider(Some(name)))
    case (None, Some(hive)) =>
      hive.storedAs.filter(_ => hive.serde.isEmpty && hive.formatClasses.isEmpty && hive.serdeProperties.isEmpty)
    case (None, None) =>
      Option.unless(SQLConf.get.getConf(SQLConf.LEGACY_CREATE_HIVE_TABLE_BY_DEFAULT))(SQLConf.get.defaultDataSourceName)
  }

  private def has(words: Set[String], name: String): Boolean = words(Everything) || words(name)

  private def words(conf: SQLConf, key: String, default: String): Set[String] = {
    val texts = CatalogOptions.ofSession(CatalogManager.SESSION_CATALOG_NAME, conf)
    val text = texts.collectFirst { case (name, value) if name.equalsIgnoreCase(key) => value }.getOrElse(default)
    text.split(",").map(_.trim.toLowerCase(Locale.ROOT)).filter(_.nonEmpty).toSet - Nothing
  }
}
