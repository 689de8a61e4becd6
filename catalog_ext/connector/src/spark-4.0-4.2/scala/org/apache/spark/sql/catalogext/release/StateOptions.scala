package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.TableCatalog

/** Since 4.3 Spark asks catalogs for the options that select a table's state; earlier releases do not. */
trait StateOptions extends TableCatalog {
  protected def own: TableCatalog
}
