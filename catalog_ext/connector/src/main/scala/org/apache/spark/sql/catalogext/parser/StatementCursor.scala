package org.apache.spark.sql.catalogext.parser

import java.util.Locale

import scala.collection.mutable.ArrayBuffer

import org.antlr.v4.runtime.misc.Interval
import org.antlr.v4.runtime.{CharStream, CharStreams, Token}

import org.apache.spark.sql.catalogext.catalog.PartitionNames
import org.apache.spark.sql.catalogext.release.{Errors, StatementParameters}
import org.apache.spark.sql.catalyst.expressions.{Ascending, Descending, Expression, Literal, NullsFirst, NullsLast,
  SortOrder}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface, SqlBaseLexer}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.internal.SQLConf

/**
 * A cursor over the tokens of a statement, from Spark's own lexer. All methods that take tokens raise a ParseException
 * at the first token that does not fit.
 *
 * @param parser parses names, values and conditions in slices of the text
 * @param refusal the error of Spark's parser for the text
 */
class StatementCursor(
    val text: String,
    val parser: ParserInterface,
    val refusal: ParseException,
    parameters: Parameters) {

  val tokens: IndexedSeq[Token] = StatementCursor.tokens(text)
  private var position = 0
  private var subject: Option[Seq[String]] = None
  private var nameOrigin = Origin()

  /** The table of the statement, once it is known to be about a table of this connector. */
  def name: Option[Seq[String]] = subject

  /**
   * Declares that the text is a statement of this connector about `table`. From then on a syntax error of this
   * connector's syntax is reported instead of Spark's.
   */
  def begun(table: Seq[String]): Unit = subject = Some(table)

  def restart(): Unit = {
    position = 0
    subject = None
  }

  def atEnd: Boolean = current.getType == Token.EOF || (current.getText == ";" &&
    tokens.drop(position).forall(token => token.getText == ";" || token.getType == Token.EOF))

  /** Whether the next tokens are these keywords or symbols. */
  def sees(words: String*): Boolean =
    words.zipWithIndex.forall { case (word, i) => at(position + i).getText.equalsIgnoreCase(word) }

  /** Moves behind these keywords or symbols if they are next; returns whether they were. */
  def take(words: String*): Boolean = {
    val found = sees(words: _*)
    if (found) position += words.length
    found
  }

  def expect(words: String*): Unit = words.foreach(word => if (!take(word)) fail(s"'$word'"))

  def expectEnd(): Unit = if (!atEnd) fail("the end of the statement")

  /** Raises a ParseException at the current token. */
  def fail(expected: String): Nothing = failAt(current, s": expected $expected")

  /** Takes a name of one or several parts. Returns None, without moving, if no name is next. */
  def takeName(): Option[Seq[String]] = Option.when(isIdentifier(current)) {
    val first = position
    nameOrigin = originOf(current)
    position += 1
    while (current.getText == "." && isIdentifier(at(position + 1))) position += 2
    parsed(first, parser.parseMultipartIdentifier)
  }

  /** Runs `body` with the position of the last name as the origin of new plan nodes. */
  def placed[T](body: => T): T = CurrentOrigin.withOrigin(nameOrigin)(body)

  def expectName(what: String): Seq[String] = takeName().getOrElse(fail(what))

  /** Takes a name of one part; raises an error that says `what` was expected. */
  def expectIdentifier(what: String): String = {
    if (!isIdentifier(current)) fail(what)
    position += 1
    parsed(position - 1, parser.parseMultipartIdentifier).head
  }

  /**
   * Takes a literal expression (a string, a number, NULL, DATE '…'): everything up to one of `ends`, outside
   * parentheses.
   */
  def expectExpression(what: String, ends: String*): Expression = {
    val first = position
    skipTo(ends)
    if (position == first) fail(what)
    parsed(first, parser.parseExpression)
  }

  /** Takes a constant and returns its text, in the form of Spark's PARTITION clauses; null for NULL. */
  def expectConstant(what: String, ends: String*): String = {
    val first = position
    val expression = expectExpression(what, ends: _*)
    if (!expression.resolved || !expression.foldable) failAt(at(first), s": expected $what")
    val value = expression.eval()
    if (value == null) null
    else PartitionNames.text(Literal(value, expression.dataType), SQLConf.get.sessionLocalTimeZone).eval().toString
  }

  /** Takes a list of `expression [ASC | DESC] [NULLS FIRST | LAST]`. */
  def expectOrder(what: String, ends: String*): Seq[SortOrder] = {
    val items = ArrayBuffer.empty[SortOrder]
    do {
      val expression = expectExpression(what, ends ++ Seq(",", "ASC", "DESC", "NULLS"): _*)
      val direction = if (take("DESC")) Descending else { take("ASC"); Ascending }
      val nulls =
        if (take("NULLS", "FIRST")) NullsFirst
        else if (take("NULLS", "LAST")) NullsLast
        else direction.defaultNullOrdering
      items += SortOrder(expression, direction, nulls, Nil)
    } while (take(","))
    items.toSeq
  }

  /** Takes the text up to one of `ends`, outside parentheses; it may be empty. */
  def textUpTo(ends: String*): String = {
    val first = position
    skipTo(ends)
    slice(first)
  }

  /** The text of the remaining tokens. */
  def rest: String = textUpTo()

  /** Takes a string literal and returns its value. */
  def expectString(what: String): String =
    if (current.getType != SqlBaseLexer.STRING_LITERAL && current.getType != SqlBaseLexer.DOUBLEQUOTED_STRING) fail(what)
    else {
      position += 1
      parsed(position - 1, parser.parseExpression).eval().toString
    }

  /** Start and end of the current token in the text, in code points. */
  def place: (Int, Int) = (current.getStartIndex, current.getStopIndex)

  /**
   * The text with replaced ranges, each given by start and end (exclusive) in code points. Replacements are padded with
   * blanks, so that positions in errors stay correct.
   */
  def replaced(pieces: (Int, Int, String)*): String = pieces.foldLeft(text) { case (all, (from, until, by)) =>
    val (start, end) = (all.offsetByCodePoints(0, from), all.offsetByCodePoints(0, until))
    all.substring(0, start) + by + all.substring(start + by.length, end).map(c => if (c == '\n') c else ' ') +
      all.substring(end)
  }

  private def skipTo(ends: Seq[String]): Unit = {
    var depth = 0
    while (!atEnd && !(depth == 0 && ends.exists(end => current.getText.equalsIgnoreCase(end)))) {
      current.getText match {
        case "(" | "[" => depth += 1
        case ")" | "]" => depth -= 1
        case _ =>
      }
      position += 1
    }
  }

  private def current: Token = at(position)
  private def at(index: Int): Token = tokens(math.min(index, tokens.length - 1))

  private def isIdentifier(token: Token): Boolean = token.getType match {
    case SqlBaseLexer.BACKQUOTED_IDENTIFIER | SqlBaseLexer.DOUBLEQUOTED_STRING => true
    case _ => token.getText.headOption.exists(c => c == '_' || Character.isLetterOrDigit(c)) &&
      token.getType != SqlBaseLexer.STRING_LITERAL && token.getType != SqlBaseLexer.INTEGER_VALUE
  }

  /** The text from the token `first` to the current one, with parameters replaced by their values. */
  private def slice(first: Int): String = if (first >= position) "" else {
    val pieces = new StringBuilder
    var from = at(first).getStartIndex
    var i = first
    while (i < position) {
      parameter(i).foreach { case (value, length) =>
        pieces ++= source(from, at(i).getStartIndex - 1) ++= value
        i += length - 1
        from = at(i).getStopIndex + 1
      }
      i += 1
    }
    (pieces ++= source(from, at(position - 1).getStopIndex)).toString
  }

  /** The SQL text of the parameter at a token, and the number of its tokens. */
  private def parameter(index: Int): Option[(String, Int)] = at(index).getText match {
    case "?" =>
      val ordinal = tokens.take(index).count(_.getText == "?")
      Some((parameters.sql(None, ordinal).getOrElse(unbound(index, s"?")), 1))
    case ":" if isIdentifier(at(index + 1)) =>
      val name = at(index + 1).getText
      Some((parameters.sql(Some(name), 0).getOrElse(unbound(index, s":$name")), 2))
    case _ => None
  }

  private def unbound(index: Int, shown: String): Nothing =
    failAt(at(index), s": parameter $shown ${StatementParameters.Missing}")

  private def source(from: Int, to: Int): String =
    if (to < from) "" else tokens.head.getInputStream.getText(Interval.of(from, to))

  /**
   * Parses the tokens from `first` on. They are preceded by as many blanks as the statement has characters before them,
   * so that positions in errors of the parser and the analyzer are correct.
   */
  private def parsed[T](first: Int, parse: String => T): T = {
    val before = source(0, at(first).getStartIndex - 1).map(c => if (c == '\n') c else ' ')
    val placed = before + slice(first)
    try parse(placed) catch {
      case e: ParseException => throw Errors.parse(
        text, e.start.copy(sqlText = Some(text)), e.getCondition, StatementCursor.parameters(e))
    }
  }

  private def failAt(token: Token, hint: String): Nothing = {
    val shown = if (token.getType == Token.EOF) "end of input" else s"'${token.getText}'"
    throw Errors.parse(text, originOf(token), "PARSE_SYNTAX_ERROR", Map("error" -> shown, "hint" -> hint))
  }

  private def originOf(token: Token): Origin = Origin(
    line = Some(token.getLine),
    startPosition = Some(token.getCharPositionInLine),
    startIndex = Some(token.getStartIndex),
    stopIndex = Some(token.getStopIndex),
    sqlText = Some(text))
}

private object StatementCursor {
  def tokens(text: String): IndexedSeq[Token] = {
    val lexer = new SqlBaseLexer(new UpperCased(CharStreams.fromString(text)))
    // No error is raised for characters that the lexer cannot read: they become a token of a type of its own.
    lexer.removeErrorListeners()
    val found = ArrayBuffer.empty[Token]
    do {
      val token = lexer.nextToken()
      if (token.getChannel == Token.DEFAULT_CHANNEL) found += token
    } while (found.isEmpty || found.last.getType != Token.EOF)
    found.toIndexedSeq
  }

  def parameters(e: ParseException): Map[String, String] = {
    import scala.jdk.CollectionConverters._
    e.getMessageParameters.asScala.toMap
  }
}

/** A character stream that is upper case for the lexer, whose keywords are upper case, and original in the tokens. */
private class UpperCased(source: CharStream) extends CharStream {
  override def LA(offset: Int): Int = {
    val character = source.LA(offset)
    if (character > 0) Character.toUpperCase(character) else character
  }

  override def getText(interval: Interval): String = source.getText(interval)
  override def consume(): Unit = source.consume()
  override def mark(): Int = source.mark()
  override def release(marker: Int): Unit = source.release(marker)
  override def index(): Int = source.index()
  override def seek(index: Int): Unit = source.seek(index)
  override def size(): Int = source.size()
  override def getSourceName: String = source.getSourceName
}

/** Text in Spark SQL syntax. Spark's own `QuotingUtils` quotes identifiers. */
object SqlText {
  /** The value as a SQL string literal on one line. */
  def literal(value: String): String = value.map {
    case '\'' => "\\'"
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case c if c < ' ' => "\\u%04x".formatLocal(Locale.ROOT, c.toInt)
    case c => c.toString
  }.mkString("'", "", "'")

  /** The list of pairs in OPTIONS, TBLPROPERTIES and similar clauses, sorted by key. */
  def pairs(values: Map[String, String]): String =
    values.toSeq.sorted.map { case (key, value) => s"${literal(key)} = ${literal(value)}" }
      .mkString("(\n  ", ",\n  ", ")")
}
