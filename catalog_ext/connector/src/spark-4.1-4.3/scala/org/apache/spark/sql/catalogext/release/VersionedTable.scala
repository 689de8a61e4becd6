package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.Table

/** A table with an id and a version, by which Spark reloads it before a plan is executed. */
trait VersionedTable extends Table
