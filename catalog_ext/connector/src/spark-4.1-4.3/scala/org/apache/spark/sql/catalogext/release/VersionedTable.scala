package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.Table

/** A table with an identity and a version, by which Spark loads it again before a plan is executed. */
trait VersionedTable extends Table
