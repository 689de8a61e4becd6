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
 * Walks over the tokens of a statement, as Spark's own lexer makes them.
 *
 * Every method that takes something raises a ParseException at the token that does not fit.
 *
 * @param parser reads names, values and conditions out of slices of the text
 * @param refusal what Spark said of the text
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

  /** The table that the statement is about, once it is known to be one of ours. */
  def name: Option[Seq[String]] = subject

  /** Says that the text is a statement of ours about `table`: from here on Spark's own error is no better. */
  def begun(table: Seq[String]): Unit = subject = Some(table)

  def restart(): Unit = {
    position = 0
    subject = None
  }

  def atEnd: Boolean = current.getType == Token.EOF || (current.getText == ";" &&
    tokens.drop(position).forall(token => token.getText == ";" || token.getType == Token.EOF))

  /** Whether the next tokens are these keywords or signs. */
  def sees(words: String*): Boolean =
    words.zipWithIndex.forall { case (word, i) => at(position + i).getText.equalsIgnoreCase(word) }

  /** Moves over these keywords or signs when they are next. */
  def take(words: String*): Boolean = {
    val found = sees(words: _*)
    if (found) position += words.length
    found
  }

  def expect(words: String*): Unit = words.foreach(word => if (!take(word)) fail(s"'$word'"))

  def expectEnd(): Unit = if (!atEnd) fail("the end of the statement")

  /** Raises a ParseException at the current token. */
  def fail(expected: String): Nothing = failAt(current, s": expected $expected")

  /** A name of one or several parts; None, and nothing is taken, where none is next. */
  def takeName(): Option[Seq[String]] = Option.when(isIdentifier(current)) {
    val first = position
    nameOrigin = originOf(current)
    position += 1
    while (current.getText == "." && isIdentifier(at(position + 1))) position += 2
    parsed(first, parser.parseMultipartIdentifier)
  }

  /** Runs `body` so that what it makes of the last name has that name's place. */
  def placed[T](body: => T): T = CurrentOrigin.withOrigin(nameOrigin)(body)

  def expectName(what: String): Seq[String] = takeName().getOrElse(fail(what))

  /** A name of one part. */
  def expectIdentifier(what: String): String = {
    if (!isIdentifier(current)) fail(what)
    position += 1
    parsed(position - 1, parser.parseMultipartIdentifier).head
  }

  /** A string, a number, NULL, DATE '…' and the like: everything up to one of `ends`, outside of parentheses. */
  def expectExpression(what: String, ends: String*): Expression = {
    val first = position
    skipTo(ends)
    if (position == first) fail(what)
    parsed(first, parser.parseExpression)
  }

  /** The text of a constant, as Spark has it in PARTITION clauses; null for NULL. */
  def expectConstant(what: String, ends: String*): String = {
    val first = position
    val expression = expectExpression(what, ends: _*)
    if (!expression.resolved || !expression.foldable) failAt(at(first), s": expected $what")
    val value = expression.eval()
    if (value == null) null
    else PartitionNames.text(Literal(value, expression.dataType), SQLConf.get.sessionLocalTimeZone).eval().toString
  }

  /** A list of `expression [ASC | DESC] [NULLS FIRST | LAST]`. */
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

  /** The text up to one of `ends`, outside of parentheses; it may be empty. */
  def textUpTo(ends: String*): String = {
    val first = position
    skipTo(ends)
    slice(first)
  }

  /** The text of the tokens that are left. */
  def rest: String = textUpTo()

  /** The value of the string that must be next. */
  def expectString(what: String): String =
    if (current.getType != SqlBaseLexer.STRING_LITERAL && current.getType != SqlBaseLexer.DOUBLEQUOTED_STRING) fail(what)
    else {
      position += 1
      parsed(position - 1, parser.parseExpression).eval().toString
    }

  /** Where the current token begins and ends in the text, in code points. */
  def place: (Int, Int) = (current.getStartIndex, current.getStopIndex)

  /**
   * The text with others in place of what lies from the one to before the other code point. Blanks make them as long, so
   * that places in errors stay what they are.
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

  /** The text from the token `first` up to the current one, with the parameters in it replaced by their values. */
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
   * What `parse` makes of the tokens from `first`. It gets them where they are in the statement, behind blanks, so that
   * what it and the analyzer say of places is right.
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
    // What the lexer cannot read comes as a token of its own kind.
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

/** Text that the lexer sees in capitals, as its keywords are, while its tokens keep the text as it is. */
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
