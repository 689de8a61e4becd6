package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalogext.parser.{StatementCursor, StatementSyntax}
import org.apache.spark.sql.catalogext.paths.{AdHocPaths, AdHocTable}
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.session.IndexedNames
import org.apache.spark.sql.catalyst.analysis.{TableAlreadyExistsException, UnresolvedIdentifier}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}

/**
 * Extractor of CREATE TABLE ... LIKE, which in these releases supports Spark's own tables only: the new table's name,
 * and IF NOT EXISTS.
 */
object LikeTables {
  /** The statement with catalog names, which Spark's grammar does not accept. */
  val Syntax: Option[StatementSyntax] = Some(LikeSyntax)

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Boolean)] = plan match {
    case create: CreateTableLikeCommand =>
      Some((UnresolvedIdentifier(create.targetTable.nameParts), create.ifNotExists))
    case _ => None
  }

  /** Creates the table in another catalog. */
  def create(catalog: TableCatalog, ident: Identifier, info: TableInfo, source: Table): Table =
    throw new UnsupportedOperationException("Spark does it by a command of its own")
}

/** A catalog that supports CREATE TABLE ... LIKE. */
trait LikeTables extends TableCatalog {
  def createTableLike(ident: Identifier, info: TableInfo, source: Table): Table
}

/**
 * Spark parses the statement with short names in place of the qualified ones, and fills in everything but the names.
 */
private object LikeSyntax extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] = if (!cursor.take("CREATE", "TABLE")) None else {
    cursor.take("IF", "NOT", "EXISTS")
    val (targetFrom, target) = (cursor.place._1, cursor.takeName())
    val targetEnd = cursor.place._1
    if (target.isEmpty || !cursor.take("LIKE")) None else {
      cursor.begun(target.get)
      val (sourceFrom, source) = (cursor.place._1, cursor.expectName("a table's name"))
      val sourceEnd = cursor.place._1
      cursor.rest
      cursor.parser.parsePlan(cursor.replaced((targetFrom, targetEnd, "t"), (sourceFrom, sourceEnd, "t"))) match {
        case like: CreateTableLikeCommand => Some(CreateLikeTable(target.get, source, like))
        case _ => None
      }
    }
  }
}

/** Replaces the statement if one of the names belongs to a catalog of this connector. */
class MarkLikeTables(session: SparkSession) extends Rule[LogicalPlan] {
  private val names = new IndexedNames(session)

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case like: CreateTableLikeCommand if Seq(like.targetTable, like.sourceTable).exists(t => names.areIndexed(t.nameParts)) =>
      CreateLikeTable(like.targetTable.nameParts, like.sourceTable.nameParts, like)
    case other => other
  }
}

/** CREATE TABLE ... LIKE with a table in a catalog of this connector. */
case class CreateLikeTable(target: Seq[String], source: Seq[String], like: CreateTableLikeCommand)
  extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val names = new IndexedNames(session)
    val (catalog, ident) = names.tableCatalog(target)
    val (from, of) = names.tableCatalog(source)
    val table = from.loadTable(of) match {
      case path: AdHocTable => throw AdHocPaths.readOnly(path.catalogName, path.metadata.name)
      case found => found
    }
    catalog match {
      case _ if catalog.tableExists(ident) =>
        if (!like.ifNotExists) throw new TableAlreadyExistsException(ident)
      case ours: LikeTables =>
        ours.createTableLike(ident, Definitions.info(table.columns(), table.partitioning(), properties), table)
      case other =>
        throw ConnectorErrors.needsSpark(s"CREATE TABLE ... LIKE in the catalog ${other.name()}", "4.2")
    }
    Nil
  }

  /** The new table's properties, in the form that Spark passes them since 4.2. */
  private def properties: Map[String, String] = like.properties ++
    like.provider.map(TableCatalog.PROP_PROVIDER -> _) ++
    like.fileFormat.locationUri.map(TableCatalog.PROP_LOCATION -> _.toString) ++
    like.fileFormat.serde.map("hive.serde" -> _) ++
    like.fileFormat.inputFormat.map("hive.input-format" -> _) ++
    like.fileFormat.outputFormat.map("hive.output-format" -> _)
}
