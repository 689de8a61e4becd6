package org.apache.spark.sql.catalogext.catalog

import java.util.Locale

/**
 * Reads a duration by the service's grammar (`docs/configuration.md`), to which `tests/contract/settings.json` holds
 * both. The connector needs it for `request-timeout`, before it can ask the service; all else it asks.
 */
object DurationText {
  private val Duration =
    "(\\d{1,18}(?:\\.\\d{1,6})?) ?(?:(us|ms|s|sec|second|m|min|minute|h|hour|d|day)s?)?".r
  private val Seconds = Map(
    "us" -> 1e-6, "ms" -> 1e-3, "s" -> 1.0, "sec" -> 1.0, "second" -> 1.0, "m" -> 60.0, "min" -> 60.0, "minute" -> 60.0,
    "h" -> 3600.0, "hour" -> 3600.0, "d" -> 86400.0, "day" -> 86400.0)
  private val LongestSeconds = 1e14

  /** Seconds, of which a number without a unit is one; None for a text that is no duration. */
  def seconds(text: String): Option[Double] = text.trim.toLowerCase(Locale.ROOT) match {
    case Duration(number, unit) =>
      Some(number.toDouble * Option(unit).fold(1.0)(Seconds)).filter(_ <= LongestSeconds)
    case _ => None
  }
}
