package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalogext.{CatalogExtSessionCatalog, CatalogExtSource}
import org.apache.spark.sql.catalogext.commands.EachTable
import org.apache.spark.sql.catalogext.release.Definitions
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.expressions.{Attribute, GenericRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, TableCatalog, V1Table}
import org.apache.spark.sql.execution.command.{AnalyzeTablesCommand, CommandUtils, CreateTableLikeCommand,
  LeafRunnableCommand, ShowTablesCommand}
import org.apache.spark.sql.execution.datasources.v2.ShowTablesExtendedExec

/**
 * Replaces Spark commands that see only Spark's own tables: commands on a whole database, and CREATE TABLE ... LIKE.
 */
class SessionListings(session: SparkSession) extends Rule[LogicalPlan] {
  private val names = new IndexedNames(session)

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (names.sessionCatalog.isEmpty) plan
    else plan.resolveOperators {
      case ShowTablesCommand(Some(database), Some(pattern), output, true, None) =>
        ShowSessionTablesExtended(database, pattern, output)
      case AnalyzeTablesCommand(Some(database), noScan) => AnalyzeSessionTables(database, noScan)
      case CreateTableLikeCommand(target, source, _, provider, properties, ifNotExists)
          if CatalogExtSource.isProvider(provider) =>
        CreateIndexedTableLike(target, source, None, properties, ifNotExists)
      case CreateTableLikeCommand(target, source, storage, Some(format), properties, ifNotExists)
          if storage.locationUri.isEmpty &&
            names.possibleInSession(target.nameParts).exists(CreatedFormats.makes(_, format)) =>
        CreateIndexedTableLike(target, source, Some(format), properties, ifNotExists)
    }
}

private object SessionListings {
  def catalog(session: classic.SparkSession): CatalogExtSessionCatalog = new IndexedNames(session).sessionCatalog.get
}

/** SHOW TABLE EXTENDED without PARTITION: Spark's rows for its own tables, plus rows for tables of the index. */
case class ShowSessionTablesExtended(database: String, pattern: String, override val output: Seq[Attribute])
  extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val catalog = SessionListings.catalog(session.asInstanceOf[classic.SparkSession])
    val names = catalog.indexedIn(Array(database)).map(_.name()).toSet
    val theirs = ShowTablesCommand(Some(database), Some(pattern), output, isExtended = true).run(session)
      .filterNot(row => !row.getBoolean(2) && names.contains(row.getString(1)))
    val (temporary, persistent) = theirs.partition(_.getBoolean(2))
    (persistent ++ (if (names.isEmpty) Nil else ours(catalog))).sortBy(_.getString(1)) ++ temporary
  }

  private def ours(catalog: CatalogExtSessionCatalog): Seq[Row] =
    ShowTablesExtendedExec(output, catalog.indexed, Seq(database), pattern).executeCollect().toSeq
      .filterNot(_.getBoolean(2))
      .map(row => new GenericRow(Array[Any](row.getString(0), row.getString(1), false, row.getString(3))))
}

/** ANALYZE TABLES: runs ANALYZE TABLE for each table of the database, of Spark and of the index. */
case class AnalyzeSessionTables(database: String, noScan: Boolean) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val spark = session.asInstanceOf[classic.SparkSession]
    val ours = SessionListings.catalog(spark).indexedIn(Array(database))
    spark.sessionState.catalog.listTables(database)
      .filterNot(table => table.database.isDefined && ours.exists(_.name().equalsIgnoreCase(table.table)))
      .foreach(analyze(spark, _))
    ours.foreach(analyze(spark, _))
    Nil
  }

  private def analyze(spark: classic.SparkSession, table: TableIdentifier): Unit =
    EachTable.analyze(table.unquotedString)(CommandUtils.analyzeTable(spark, table, noScan))

  private def analyze(spark: classic.SparkSession, table: Identifier): Unit = {
    val name = Seq(CatalogManager.SESSION_CATALOG_NAME, database, table.name()).map(quoteIfNeeded).mkString(".")
    EachTable.analyze(name)(spark.sql(s"ANALYZE TABLE $name COMPUTE STATISTICS${if (noScan) " NOSCAN" else ""}"))
  }
}

/**
 * CREATE TABLE ... LIKE a Spark table, with USING catalog_ext or a format of `create.formats`: creates a table of the
 * index. By default its format is the source's.
 */
case class CreateIndexedTableLike(
    target: TableIdentifier,
    source: TableIdentifier,
    format: Option[String],
    properties: Map[String, String],
    ifNotExists: Boolean)
  extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val spark = session.asInstanceOf[classic.SparkSession]
    val catalog = SessionListings.catalog(spark)
    val ident = Identifier.of(Array(spark.sessionState.catalog.qualifyIdentifier(target).database.get), target.table)
    if (!catalog.tableExists(ident)) {
      val like = V1Table(spark.sessionState.catalog.getTempViewOrPermanentTableMetadata(source))
      val said = format.orElse(like.catalogTable.provider.filter(CreatedFormats.Known.contains))
      catalog.createTable(ident, Definitions.info(like.columns(), like.partitioning,
        said.map(CatalogExtSource.Format -> _).toMap ++ properties + (TableCatalog.PROP_PROVIDER -> CatalogExtSource.Name)))
    } else if (!ifNotExists) throw new TableAlreadyExistsException(ident)
    Nil
  }
}
