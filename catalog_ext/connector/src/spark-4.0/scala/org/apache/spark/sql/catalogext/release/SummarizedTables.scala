package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}

/** Spark asks catalogs for the kinds of tables from 4.1 on. */
trait ListedTables extends TableCatalog

trait SummarizedTables extends TableCatalog {
  protected def own: TableCatalog
  def indexed: TableCatalog
  def indexedIn(namespace: Array[String]): Array[Identifier]
}
