package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement
import org.apache.spark.sql.types.StructType

/** Columns that an INSERT omits from its list; Spark fills in their defaults. */
object OmittedColumns {
  def filled(insert: InsertIntoStatement, columns: => StructType): InsertIntoStatement = insert
}
