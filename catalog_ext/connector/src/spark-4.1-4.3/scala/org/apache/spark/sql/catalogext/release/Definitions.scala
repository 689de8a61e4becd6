package org.apache.spark.sql.catalogext.release

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{Column, Identifier, StagingTableCatalog, Table, TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform

/** The definitions of CREATE and REPLACE TABLE. */
object Definitions {
  type TableInfo = org.apache.spark.sql.connector.catalog.TableInfo

  def info(columns: Array[Column], keys: Array[Transform], properties: Map[String, String]): TableInfo = {
    val builder = new org.apache.spark.sql.connector.catalog.TableInfo.Builder()
    builder.withColumns(columns)
    builder.withPartitions(keys)
    builder.withProperties(properties.asJava)
    builder.build()
  }

  /** Creates the table in another catalog. */
  def create(catalog: TableCatalog, ident: Identifier, info: TableInfo): Table = catalog.createTable(ident, info)
}

/** A catalog whose tables are created from a [[Definitions.TableInfo]]. */
trait DefinedTables extends StagingTableCatalog
