package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalogext.parser.StatementCursor

/** Table functions with a catalog's name in front: `lake.files(...)`. */
object TableFunctions {
  /** A text that the parser takes in place of one that it refuses for such a name. */
  def spelled(cursor: StatementCursor): Option[String] = None

  /** The parts of a function's name. */
  def parts(name: Seq[String]): Seq[String] = name
}
