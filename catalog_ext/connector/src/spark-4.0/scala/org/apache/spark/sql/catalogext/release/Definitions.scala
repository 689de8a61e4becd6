package org.apache.spark.sql.catalogext.release

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, StagedTable, StagingTableCatalog,
  Table, TableCatalog}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.types.StructType

/** The definitions of CREATE and REPLACE TABLE. */
object Definitions {
  /** A definition, with the fields of Spark's class since 4.1. */
  class TableInfo(
      val columns: Array[Column], val partitions: Array[Transform], val properties: util.Map[String, String]) {
    def schema(): StructType = CatalogV2Util.v2ColumnsToStructType(columns)
  }

  def info(columns: Array[Column], keys: Array[Transform], properties: Map[String, String]): TableInfo =
    new TableInfo(columns, keys, properties.asJava)

  /** Creates the table in another catalog. */
  def create(catalog: TableCatalog, ident: Identifier, info: TableInfo): Table =
    catalog.createTable(ident, info.columns, info.partitions, info.properties)
}

/** A catalog whose tables are created from a [[Definitions.TableInfo]]. */
trait DefinedTables extends StagingTableCatalog {
  import Definitions.TableInfo

  def createTable(ident: Identifier, info: TableInfo): Table
  def stageCreate(ident: Identifier, info: TableInfo): StagedTable
  def stageReplace(ident: Identifier, info: TableInfo): StagedTable
  def stageCreateOrReplace(ident: Identifier, info: TableInfo): StagedTable

  private type Properties = util.Map[String, String]

  override def createTable(ident: Identifier, columns: Array[Column], keys: Array[Transform], all: Properties): Table =
    createTable(ident, new TableInfo(columns, keys, all))
  override def stageCreate(
      ident: Identifier, columns: Array[Column], keys: Array[Transform], all: Properties): StagedTable =
    stageCreate(ident, new TableInfo(columns, keys, all))
  override def stageReplace(
      ident: Identifier, columns: Array[Column], keys: Array[Transform], all: Properties): StagedTable =
    stageReplace(ident, new TableInfo(columns, keys, all))
  override def stageCreateOrReplace(
      ident: Identifier, columns: Array[Column], keys: Array[Transform], all: Properties): StagedTable =
    stageCreateOrReplace(ident, new TableInfo(columns, keys, all))
}
