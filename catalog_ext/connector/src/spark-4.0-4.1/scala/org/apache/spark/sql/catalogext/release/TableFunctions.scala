package org.apache.spark.sql.catalogext.release

import java.util.Locale

import org.apache.spark.sql.catalogext.parser.StatementCursor

/**
 * Table functions qualified with a catalog, `lake.files(...)`, which Spark's parser accepts since 4.2. Here it gets
 * `lake_files`, which has the same length, so that error positions stay correct.
 */
object TableFunctions {
  private val Refusal = "INVALID_SQL_SYNTAX.INVALID_TABLE_VALUED_FUNC_NAME"
  private val Files = "files"

  /** The text for the parser in place of one with such a name; None if there is no such name. */
  def spelled(cursor: StatementCursor): Option[String] = {
    val names = if (cursor.refusal.getCondition != Refusal) Nil else cursor.tokens.sliding(4).collect {
      case Seq(catalog, dot, name, open)
          if dot.getText == "." && open.getText == "(" && name.getText.equalsIgnoreCase(Files) =>
        (catalog.getStartIndex, name.getStopIndex + 1, joined(catalog.getText))
    }.toSeq
    Option.when(names.nonEmpty)(cursor.replaced(names: _*))
  }

  private def joined(catalog: String): String =
    if (catalog.startsWith("`")) s"${catalog.dropRight(1)}_$Files`" else s"${catalog}_$Files"

  /** The parts of a function's name. */
  def parts(name: Seq[String]): Seq[String] = name match {
    case Seq(one) if one.toLowerCase(Locale.ROOT).endsWith(s"_$Files") => Seq(one.dropRight(Files.length + 1), Files)
    case other => other
  }
}
