package org.apache.spark.sql.catalogext.release

import java.util

import org.apache.spark.sql.catalyst.catalog.CatalogStatistics
import org.apache.spark.sql.connector.expressions.NamedReference
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType

object Statistics {
  /** Statistics of columns as the optimizer takes them. */
  def ofColumns(found: CatalogStatistics, schema: StructType): util.Map[NamedReference, ColumnStatistics] =
    DataSourceV2Relation.v1StatsToV2Stats(found, schema).columnStats()
}
