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
 * The table that CREATE TABLE ... AS in the session catalog creates with another data source. Spark's own catalog has
 * no staging, so the table is created at once and dropped if the query fails, as Spark itself does.
 */
class DelegatedTable(own: TableCatalog, ident: Identifier, table: Table) extends StagedTable with SupportsWrite {
  override def name(): String = table.name()
  override def columns(): Array[Column] = table.columns()
  // Spark 4.0 calls only this method for the columns, so it is implemented besides columns().
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
    // V2SessionCatalog returns null if Spark does not need the table.
    val created = Option(Definitions.create(own, ident, info)).getOrElse(own.loadTable(ident))
    new DelegatedTable(own, ident, created)
  }
}

/**
 * `register_table` in the session catalog. The service gets the location of a Spark table with the same name, because
 * the registered table would hide it. If the location is the same, the registration takes it over.
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

  /** The identifier of a table name in an argument. None if the text is not valid, which the procedure then reports. */
  private def identifier(text: String): Option[Identifier] =
    TableArgument.parts(text).map(_.takeRight(2)).collect { case Seq(namespace, table) =>
      Identifier.of(Array(namespace), table)
    }
}

/**
 * `create.formats` and `create.databases`: which CREATE TABLE statements of the session catalog create tables in the
 * index. They are session confs, so SET changes them, and the service is not asked.
 */
object CreatedFormats {
  private val Formats = "create.formats"
  private val Databases = "create.databases"
  /** The formats of tables in the index. */
  val Known: Set[String] = Set("parquet", "orc", "csv", "json", "text")
  private val Everything = "*"
  private val Nothing = "none"

  /** The format of the new table if a statement is to create it in the index. */
  def of(ident: Identifier, spec: UnresolvedTableSpec): Option[String] = said(spec).filter(makes(ident, _))

  /** Whether a table with this format, by Spark's name, is to be created in the index. */
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

  /** The format of USING or STORED AS, otherwise Spark's default. Other Hive clauses mean a Hive table. */
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
