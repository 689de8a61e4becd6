package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.parser.{ParserInterface, SqlStatementSplitResult, TemporalIdentifier}

/** Methods that Spark 4.3 adds to the parser's interface: names with a time, and scripts of several statements. */
trait StatementSplitting extends ParserInterface {
  protected def delegate: ParserInterface

  override def parseTemporalTableIdentifier(text: String): TemporalIdentifier =
    delegate.parseTemporalTableIdentifier(text)
  override def splitStatements(text: String): SqlStatementSplitResult = delegate.splitStatements(text)
}
