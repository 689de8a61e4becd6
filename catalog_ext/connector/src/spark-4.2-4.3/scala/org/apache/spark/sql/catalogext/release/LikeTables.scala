package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementSyntax
import org.apache.spark.sql.catalogext.release.Definitions.TableInfo
import org.apache.spark.sql.catalyst.plans.logical.{CreateTableLike, LogicalPlan}
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog}

/** Extractor of CREATE TABLE ... LIKE: the new table's name, and IF NOT EXISTS. */
object LikeTables {
  /** None, because Spark's grammar accepts catalog names. */
  val Syntax: Option[StatementSyntax] = None

  def unapply(plan: LogicalPlan): Option[(LogicalPlan, Boolean)] = plan match {
    case create: CreateTableLike => Some((create.name, create.ifNotExists))
    case _ => None
  }

  /** Creates the table in another catalog. */
  def create(catalog: TableCatalog, ident: Identifier, info: TableInfo, source: Table): Table =
    catalog.createTableLike(ident, info, source)
}

/** A catalog that supports CREATE TABLE ... LIKE. */
trait LikeTables extends TableCatalog
