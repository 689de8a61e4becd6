package org.apache.spark.sql.catalogext.release

import java.util

import org.apache.spark.sql.connector.catalog.TableCatalog

/** Options that choose the state of a table of Spark's own. */
trait StateOptions extends TableCatalog {
  protected def own: TableCatalog

  override def tableStateOptionKeys(): util.Set[String] = own.tableStateOptionKeys()
}
