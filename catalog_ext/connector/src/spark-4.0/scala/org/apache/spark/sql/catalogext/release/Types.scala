package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.types.DataType

/** Spark has the type TIME since 4.1. */
object Types {
  def isTime(dataType: DataType): Boolean = false
}
