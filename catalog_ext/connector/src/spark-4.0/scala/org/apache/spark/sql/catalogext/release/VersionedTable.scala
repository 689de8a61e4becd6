package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.Table

/** A table with an identity and a version, which Spark asks for from 4.1 on. */
trait VersionedTable extends Table {
  def id(): String
  def version(): String
}
