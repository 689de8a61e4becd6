package org.apache.spark.sql.catalogext.catalog

import java.io.IOException
import java.net.URI
import java.nio.file.{Files, InvalidPathException, Paths}
import java.time.Duration
import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The catalog's options: `spark.sql.catalog.<name>.<option>`. */
object CatalogOptions {
  val Uri = "uri"
  val Token = "token"
  val TokenFile = "token-file"
  val TokenVariable = "CATALOG_EXT_TOKEN"
  val RequestTimeout = "request-timeout"
  private val DefaultRequestTimeout = "60s"
  val RetryTimeout = "retry-timeout"
  private val DefaultRetryTimeout = "90s"
  /** Options that only the connector uses and never sends to the service. */
  private val Own = Set(Uri, Token, TokenFile, RequestTimeout, RetryTimeout)
  val PartitionColumns = "partition-columns"

  def client(catalog: String, options: CaseInsensitiveStringMap): ServiceClient =
    new ServiceClient(
      uri(catalog, options), () => token(catalog, options),
      duration(catalog, options, RequestTimeout, DefaultRequestTimeout),
      duration(catalog, options, RetryTimeout, DefaultRetryTimeout))

  /** The session's settings of the catalog that are sent to the service: `spark.sql.catalog.<name>.<key>`, by key. */
  def ofSession(catalog: String, conf: SQLConf): Map[String, String] = {
    val prefix = s"spark.sql.catalog.$catalog."
    conf.getAllConfs.collect {
      case (key, value)
        if key.startsWith(prefix) && !Own(key.stripPrefix(prefix).toLowerCase(Locale.ROOT)) =>
        key.stripPrefix(prefix) -> value
    }
  }

  /** The addresses of the service in the option `uri`, as text: one, or several separated by commas. */
  private def uri(catalog: String, options: CaseInsensitiveStringMap): String = {
    val given = Option(options.get(Uri)).getOrElse(
      throw invalid(catalog, Uri,
        "is missing: give the address of the catalog-ext service, such as http://127.0.0.1:8765"))
    val addresses = given.split(",", -1).map(_.trim.stripSuffix("/")).toSeq
    addresses.find(address => !address.startsWith("http://") && !address.startsWith("https://")).foreach { other =>
      throw invalid(catalog, Uri, s"is '$given', and '$other' is no http or https address")
    }
    addresses.find(address => Try(new URI(address).getHost).toOption.forall(_ == null)).foreach { other =>
      throw invalid(catalog, Uri, s"is '$given', and '$other' names no host: an IPv6 address stands in brackets, as in " +
        "http://[::1]:8765, and a host's name has letters, digits, dots and hyphens")
    }
    addresses.distinct.mkString(",")
  }

  private def token(catalog: String, options: CaseInsensitiveStringMap): String =
    Option(options.get(Token))
      .orElse(Option(options.get(TokenFile)).map(readToken(catalog, _)))
      .orElse(sys.env.get(TokenVariable))
      .getOrElse(throw invalid(catalog, Token,
        s"is missing: give the service's token there, in a file named by '$TokenFile', or in the environment " +
          s"variable $TokenVariable"))

  private def readToken(catalog: String, file: String): String =
    try Files.readString(Paths.get(file)).trim catch {
      case e @ (_: IOException | _: InvalidPathException) =>
        throw invalid(catalog, TokenFile, s"names '$file', which cannot be read (${e.getClass.getSimpleName}): write the token " +
          "of the running service there, or, where an earlier session's service has ended, call catalog_ext.configure for " +
          "this one", Some(e))
    }

  private def duration(catalog: String, options: CaseInsensitiveStringMap, key: String, default: String): Duration = {
    val value = options.getOrDefault(key, default)
    DurationText.seconds(value).filter(_ > 0).map(found => Duration.ofMillis(math.max((found * 1000).toLong, 1)))
      .getOrElse(throw invalid(catalog, key, s"is '$value', which is no duration such as $default"))
  }

  /** The error for an invalid option; `what` completes the sentence after the option's name. */
  def invalid(catalog: String, option: String, what: String, cause: Option[Throwable] = None): Throwable =
    ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
      s"The option spark.sql.catalog.$catalog.$option $what.", Map("catalog" -> catalog, "option" -> option), cause)
}

/**
 * Parses a duration with the service's syntax (`docs/configuration.md`); `tests/contract/settings.json` checks that
 * both parsers agree. The connector needs only `request-timeout` before it can ask the service for all other settings.
 */
object DurationText {
  private val Duration =
    "(\\d{1,18}(?:\\.\\d{1,6})?) ?(?:(us|ms|s|sec|second|m|min|minute|h|hour|d|day)s?)?".r
  private val Seconds = Map(
    "us" -> 1e-6, "ms" -> 1e-3, "s" -> 1.0, "sec" -> 1.0, "second" -> 1.0, "m" -> 60.0, "min" -> 60.0, "minute" -> 60.0,
    "h" -> 3600.0, "hour" -> 3600.0, "d" -> 86400.0, "day" -> 86400.0)
  private val LongestSeconds = 1e14

  /** The duration in seconds; a number without a unit is in seconds. None if the text is not a duration. */
  def seconds(text: String): Option[Double] = text.trim.toLowerCase(Locale.ROOT) match {
    case Duration(number, unit) =>
      Some(number.toDouble * Option(unit).fold(1.0)(Seconds)).filter(_ <= LongestSeconds)
    case _ => None
  }
}
