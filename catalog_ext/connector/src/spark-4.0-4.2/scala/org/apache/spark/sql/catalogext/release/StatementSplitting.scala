package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.parser.ParserInterface

/** The parser's interface ends here before Spark 4.3. */
trait StatementSplitting extends ParserInterface {
  protected def delegate: ParserInterface
}
