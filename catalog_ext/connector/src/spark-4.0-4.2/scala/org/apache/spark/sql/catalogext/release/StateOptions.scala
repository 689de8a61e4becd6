package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.TableCatalog

/** Spark asks catalogs for the options that choose a table's state from 4.3 on. */
trait StateOptions extends TableCatalog {
  protected def own: TableCatalog
}
