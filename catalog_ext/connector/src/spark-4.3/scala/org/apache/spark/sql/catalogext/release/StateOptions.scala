package org.apache.spark.sql.catalogext.release

import java.util

import org.apache.spark.sql.connector.catalog.TableCatalog

/** Options that select the state of a Spark table. */
trait StateOptions extends TableCatalog {
  protected def own: TableCatalog

  override def tableStateOptionKeys(): util.Set[String] = own.tableStateOptionKeys()
}
