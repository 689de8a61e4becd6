package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.parser.ParserInterface

/** Spark 4.3 adds methods to the parser's interface; there are none in earlier releases. */
trait StatementSplitting extends ParserInterface {
  protected def delegate: ParserInterface
}
