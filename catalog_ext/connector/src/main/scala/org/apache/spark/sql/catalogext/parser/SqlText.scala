package org.apache.spark.sql.catalogext.parser

import java.util.Locale

/** Text as statements of Spark SQL have it. Identifiers are quoted by Spark's own `QuotingUtils`. */
object SqlText {
  /** The text as a string literal on one line. */
  def literal(value: String): String = value.map {
    case '\'' => "\\'"
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case c if c < ' ' => "\\u%04x".formatLocal(Locale.ROOT, c.toInt)
    case c => c.toString
  }.mkString("'", "", "'")

  /** The list of pairs of OPTIONS, TBLPROPERTIES and such clauses, in the order of the keys. */
  def pairs(values: Map[String, String]): String =
    values.toSeq.sorted.map { case (key, value) => s"${literal(key)} = ${literal(value)}" }
      .mkString("(\n  ", ",\n  ", ")")
}
