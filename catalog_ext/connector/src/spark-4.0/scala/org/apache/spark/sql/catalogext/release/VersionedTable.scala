package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.Table

/** A table with an id and a version, for which Spark asks since 4.1. */
trait VersionedTable extends Table {
  def id(): String
  def version(): String
}
