package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.types.DataType

/** Spark has TIME from 4.1 on. */
object Types {
  def isTime(dataType: DataType): Boolean = false
}
