package org.apache.spark.sql.catalogext.catalog

import java.util.Locale

import org.apache.spark.sql.catalogext.service.ConnectorErrors

/** The format and the reader's options that Hive's clauses name: STORED AS, ROW FORMAT DELIMITED, ROW FORMAT SERDE. */
object HiveStorage {
  private val StoredAs = "hive.stored-as"
  private val Serde = "hive.serde"
  private val InputFormat = "hive.input-format"
  private val OutputFormat = "hive.output-format"

  /** Properties by which Spark hands these clauses on. */
  val Properties: Set[String] = Set(StoredAs, Serde, InputFormat, OutputFormat)

  private val Delimited = Set(
    "field.delim", "escape.delim", "line.delim", "colelction.delim", "mapkey.delim", "serialization.null.format",
    "serialization.format")
  private val Formats = Map(
    "parquet" -> "parquet", "orc" -> "orc", "textfile" -> "delimited", "jsonfile" -> "json",
    "parquethiveserde" -> "parquet", "orcserde" -> "orc", "lazysimpleserde" -> "delimited",
    "opencsvserde" -> "quoted", "jsonserde" -> "json",
    "mapredparquetinputformat" -> "parquet", "orcinputformat" -> "orc", "textinputformat" -> "delimited")

  /**
   * What the clauses say; None where there are none.
   *
   * @param serdeProperties the settings of ROW FORMAT
   */
  def of(
      table: String,
      properties: Map[String, String],
      serdeProperties: Map[String, String]): Option[(String, Map[String, String])] = {
    val named = Seq(Serde, StoredAs, InputFormat).flatMap(properties.get).headOption
    val word = named.map(_.split('.').last.toLowerCase(Locale.ROOT))
      .orElse(Option.when(serdeProperties.keys.exists(Delimited.contains))("textfile"))
    word.map { name =>
      Formats.getOrElse(name, throw unsupported(table, named.getOrElse(name))) match {
        case "delimited" => ("csv", delimited(table, properties, serdeProperties))
        case "quoted" => ("csv", Map(
          "sep" -> serdeProperties.getOrElse("separatorChar", ","),
          "quote" -> serdeProperties.getOrElse("quoteChar", "\""),
          "escape" -> serdeProperties.getOrElse("escapeChar", "\\")) ++ header(properties))
        case format => (format, serdeProperties -- Delimited)
      }
    }
  }

  private def delimited(
      table: String,
      properties: Map[String, String],
      settings: Map[String, String]): Map[String, String] = {
    if (!settings.get("line.delim").forall(_ == "\n")) throw ConnectorErrors.analysis(
      ConnectorErrors.UnsupportedFormat,
      s"Table $table cannot have LINES TERMINATED BY another character than '\\n', as in Hive itself.",
      Map("table" -> table))
    if (settings.contains("escape.delim")) throw ConnectorErrors.analysis(
      ConnectorErrors.UnsupportedFormat,
      s"Table $table cannot have ESCAPED BY: Spark's reader of text knows escapes only inside of quotes. Leave it " +
        "out, or use USING csv, whose values are quoted.", Map("table" -> table))
    Map(
      "sep" -> separator(settings.get("field.delim").orElse(settings.get("serialization.format"))),
      "quote" -> "",
      "nullValue" -> settings.getOrElse("serialization.null.format", "\\N")) ++ header(properties)
  }

  /** Hive's default, and its numbers for characters: '1' is the first control character. */
  private def separator(text: Option[String]): String = text match {
    case None => "\u0001"
    case Some(digits) if digits.nonEmpty && digits.forall(_.isDigit) => digits.toInt.toChar.toString
    case Some(other) => other
  }

  private def header(properties: Map[String, String]): Option[(String, String)] =
    properties.get("skip.header.line.count").filter(_ == "1").map(_ => "header" -> "true")

  private def unsupported(table: String, what: String): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.UnsupportedFormat,
    s"Table $table cannot be stored as '$what'. Use PARQUET, ORC, TEXTFILE or JSONFILE, or USING csv, json or text.",
    Map("table" -> table, "format" -> what))
}
