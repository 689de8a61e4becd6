package org.apache.spark.sql.catalogext.formats

import java.util.{Locale, Properties}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.hive.serde2.AbstractSerDe

import org.apache.spark.sql.catalogext.service.ConnectorErrors

/**
 * Text that a SerDe of Hive reads and writes: the classes are those of Hive 2.3, which Spark ships.
 *
 * @param serde the class
 * @param options of the table, with names in lower case: those of Spark's reader where it has the same, else Hive's
 */
case class HiveText(serde: String, options: Map[String, String]) {
  import HiveText._

  /** Lines at the start and at the end of each file that are no rows. */
  val headerLines: Int =
    options.get(HeaderLines).map(_.trim.toInt).getOrElse(if (options.get("header").exists(_.equalsIgnoreCase("true"))) 1 else 0)
  val footerLines: Int = options.get(FooterLines).fold(0)(_.trim.toInt)

  // The reader of the first part of a file reads one line beyond its first byte.
  def isSplitable: Boolean = headerLines <= 1 && footerLines == 0

  def hasTimestampFormats: Boolean = options.contains(TimestampFormats)

  def separator: Byte = serde match {
    case LazySimple => delimiter.toByte
    case _ => options.getOrElse("sep", ",").charAt(0).toByte
  }

  def escape: Option[Byte] = options.get("escape.delim").filter(_.nonEmpty).map(text =>
    text.toByteOption.getOrElse(text.charAt(0).toByte))

  /** A new SerDe for columns of these types of Hive. Names do not matter, and Hive takes fewer than Spark. */
  def newSerde(types: Seq[String], conf: Configuration): AbstractSerDe = {
    val settings = new Properties()
    settings.setProperty("columns", types.indices.map(i => s"c$i").mkString(","))
    settings.setProperty("columns.types", types.mkString(":"))
    own.foreach { case (name, value) => settings.setProperty(name, value) }
    val made = Class.forName(serde, true, getClass.getClassLoader).getConstructor().newInstance().asInstanceOf[AbstractSerDe]
    made.initialize(conf, settings)
    made
  }

  private def delimiter: Int = options.get("sep") match {
    case Some("\\\\") => '\\'
    case Some("\\t") => '\t'
    case Some(text) if text.nonEmpty => text.charAt(0)
    case _ => 1
  }

  private def own: Map[String, String] = serde match {
    case LazySimple => options.filter { case (name, _) => Passed(name) } +
      ("field.delim" -> delimiter.toByte.toString) +
      ("serialization.null.format" -> options.getOrElse("nullvalue", "\\N"))
    case _ => Quoted.flatMap { case (option, name) => options.get(option).map(name -> _) }
  }
}

object HiveText {
  val Serde = "serde"
  val LazySimple = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
  val OpenCsv = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
  private val HeaderLines = "skip.header.line.count"
  private val FooterLines = "skip.footer.line.count"
  private val TimestampFormats = "timestamp.formats"

  /** Settings of LazySimpleSerDe that the options have under Hive's names. */
  private val Passed = Set(
    "escape.delim", "colelction.delim", "mapkey.delim", "serialization.encoding", "serialization.escape.crlf",
    "serialization.last.column.takes.rest", "hive.serialization.extend.nesting.levels",
    "hive.serialization.extend.additional.nesting.levels", TimestampFormats)
  private val Quoted = Map("sep" -> "separatorChar", "quote" -> "quoteChar", "escape" -> "escapeChar")

  /** The SerDe that a table's options name; None where Spark's own reader reads the files. */
  def of(options: Iterable[(String, String)]): Option[HiveText] = {
    val lower = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }.toMap
    lower.get(Serde).map { serde =>
      if (serde != LazySimple && serde != OpenCsv) throw ConnectorErrors.analysis(ConnectorErrors.UnsupportedFormat,
        s"The option $Serde is '$serde'. Tables of text have $LazySimple or $OpenCsv.", Map("format" -> serde))
      check(serde)
      HiveText(serde, lower)
    }
  }

  private def check(serde: String): Unit =
    try Class.forName(serde, false, getClass.getClassLoader) catch {
      case e @ (_: ClassNotFoundException | _: NoClassDefFoundError) =>
        throw ConnectorErrors.analysis(ConnectorErrors.EnvironmentSetup,
          s"A table of Hive's text needs the class $serde, which this Spark does not have. Use a Spark that is built " +
            "with Hive, as PySpark is, or add hive-serde of Hive 2.3 to its jars.",
          Map("class" -> serde), Some(e))
    }
}
