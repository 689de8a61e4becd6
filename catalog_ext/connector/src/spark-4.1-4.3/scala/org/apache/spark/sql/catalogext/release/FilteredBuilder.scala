package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters

/** A builder of scans to which Spark pushes its own expressions. */
abstract class FilteredBuilder(session: SparkSession) extends SupportsPushDownCatalystFilters
