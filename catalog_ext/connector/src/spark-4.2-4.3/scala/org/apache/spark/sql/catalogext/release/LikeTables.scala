package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementSyntax
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalyst.plans.logical.{CreateTableLike, LogicalPlan}
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog}

/** CREATE TABLE ... LIKE: the new table's name, and whether it may be there. */
object LikeTables {
  /** The statement with names that Spark's grammar does not take. */
  val Syntax: Option[StatementSyntax] = None

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Boolean)] = plan match {
    case create: CreateTableLike => Some((create.name, create.ifNotExists))
    case _ => None
  }

  /** Has another catalog create the table. */
  def create(catalog: TableCatalog, ident: Identifier, info: TableInfo, source: Table): Table =
    catalog.createTableLike(ident, info, source)
}

/** A catalog that makes tables like others. */
trait LikeTables extends TableCatalog
