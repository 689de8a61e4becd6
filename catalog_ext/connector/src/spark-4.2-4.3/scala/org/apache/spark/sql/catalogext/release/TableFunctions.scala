package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementCursor

/** Table functions qualified with a catalog: `lake.files(...)`. */
object TableFunctions {
  /** None: Spark's parser accepts such names. */
  def spelled(cursor: StatementCursor): Option[String] = None

  /** The parts of a function's name. */
  def parts(name: Seq[String]): Seq[String] = name
}
