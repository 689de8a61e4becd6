package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.types.{DataType, TimeType}

object Types {
  def isTime(dataType: DataType): Boolean = dataType.isInstanceOf[TimeType]
}
