package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}

/** Since 4.1 Spark asks catalogs for the types of tables; 4.0 does not. */
trait ListedTables extends TableCatalog

trait SummarizedTables extends TableCatalog {
  protected def own: TableCatalog
  def indexed: TableCatalog
  def indexedIn(namespace: Array[String]): Array[Identifier]
}
