package org.apache.spark.sql.catalogext.catalog

import java.util.Locale

import scala.util.Try

/**
 * Reads sizes and durations by the service's grammar (`docs/configuration.md`), to which `tests/contract/settings.json`
 * holds both.
 */
object SettingText {
  private val Size = "(\\d{1,19}) ?([kmgtp]?)(?:i?b)?".r
  private val Shifts = Map("" -> 0, "k" -> 10, "m" -> 20, "g" -> 30, "t" -> 40, "p" -> 50)
  private val Duration =
    "(\\d{1,18}(?:\\.\\d{1,6})?) ?(?:(us|ms|s|sec|second|m|min|minute|h|hour|d|day)s?)?".r
  private val Seconds = Map(
    "us" -> 1e-6, "ms" -> 1e-3, "s" -> 1.0, "sec" -> 1.0, "second" -> 1.0, "m" -> 60.0, "min" -> 60.0, "minute" -> 60.0,
    "h" -> 3600.0, "hour" -> 3600.0, "d" -> 86400.0, "day" -> 86400.0)
  private val LongestSeconds = 1e14

  /** Bytes above zero; None for a text that is no size. */
  def bytes(text: String): Option[Long] = text.trim.toLowerCase(Locale.ROOT) match {
    case Size(number, unit) => Try((BigInt(number) << Shifts(unit)).bigInteger.longValueExact()).toOption.filter(_ > 0)
    case _ => None
  }

  /** Seconds, of which a number without a unit is one; None for a text that is no duration. */
  def seconds(text: String): Option[Double] = text.trim.toLowerCase(Locale.ROOT) match {
    case Duration(number, unit) =>
      Some(number.toDouble * Option(unit).fold(1.0)(Seconds)).filter(_ <= LongestSeconds)
    case _ => None
  }
}
