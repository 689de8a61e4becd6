package org.apache.spark.sql.catalogext.catalog

import java.util.{Collections, LinkedHashMap, Locale, Map => JMap}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.{ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The settings of one read or write, as the service resolved them: typed, by key; null if a setting has no value. */
class ResolvedSettings(values: JsonNode) {
  def text(key: String): Option[String] = values.stringOption(key)
  def long(key: String): Option[Long] = values.longOption(key)
  def flag(key: String): Boolean = values.field(key).asBoolean()
}

/**
 * Asks the service to resolve settings. The service knows defaults, aliases, syntax and precedence; this object only
 * collects the values of options and session.
 */
object ResolvedSettings {
  private val Remembered = 1000
  /** Prefix of internal options that Spark and this connector add to the user's options. */
  private val Internal = "__"
  private val InOrderOfUse = true
  private val known = Collections.synchronizedMap(
    new LinkedHashMap[Question, JsonNode](16, 0.75f, InOrderOfUse) {
      override def removeEldestEntry(eldest: JMap.Entry[Question, JsonNode]): Boolean = size > Remembered
    })

  /** Resolves the settings of a table that does not exist yet. */
  def ofNewTable(client: ServiceClient, table: String, properties: Map[String, String]): JsonNode = {
    val request = obj("table" -> text(table), "properties" -> map(properties))
    ServiceException.translating(client.call("settings/load", request)).field("settings")
  }

  /**
   * The settings of one kind of read or write (`use`; docs/spec/service.md lists the kinds). Without values from
   * options or the session, these are the settings that came with the table, and the service is not asked.
   */
  def of(
      use: String,
      client: ServiceClient,
      catalog: String,
      table: TableMetadata,
      options: CaseInsensitiveStringMap,
      conf: SQLConf): ResolvedSettings = {
    val loaded = table.settings.field(use)
    val given = Given(loaded.items("names").map(_.asText()).toSet, catalog, table, options, conf)
    val own = loaded.field("values")
    def ask(): JsonNode = {
      val request = obj(
        "use" -> text(use), "table" -> text(table.qualifiedName), "catalog" -> text(catalog),
        "options" -> map(given.options), "session" -> map(given.session), "catalog_conf" -> map(given.catalogConf),
        "properties" -> map(given.properties), "other_options" -> arr(given.others.toSeq.sorted.map(text)),
        "other_catalog_keys" -> arr(given.othersOfCatalog.toSeq.sorted.map(text)))
      ServiceException.translating(client.call("settings/resolve", request)).field("values")
    }
    // Without table properties the table's name appears in error messages only, so it is left out of the cache key.
    val name = Option.unless(given.properties.isEmpty)(table.qualifiedName)
    new ResolvedSettings(
      if (own.isNull) ask()
      else if (given.overrides) remembered(Question(client.uri, use, catalog, name, given, own), () => ask())
      else own)
  }

  private def remembered(question: Question, ask: () => JsonNode): JsonNode =
    Option(known.get(question)).getOrElse {
      val values = ask()
      known.put(question, values)
      values
    }

  /**
   * The key under which resolved settings are cached: the given values, the service, and the settings that it resolved
   * for the table itself.
   */
  private case class Question(
      service: String,
      use: String,
      catalog: String,
      table: Option[String],
      given: Given,
      own: JsonNode)

  /**
   * The values that the user gave for this use. All other keys are sent by name only, so that the service can detect
   * misspelled ones.
   */
  private case class Given(
      options: Map[String, String],
      session: Map[String, String],
      catalogConf: Map[String, String],
      properties: Map[String, String],
      others: Set[String],
      othersOfCatalog: Set[String]) {
    /** Whether the user gave any value, so that the table's own settings do not hold. */
    def overrides: Boolean = 
      options.nonEmpty || session.nonEmpty || catalogConf.nonEmpty || others.nonEmpty || othersOfCatalog.nonEmpty
  }

  /** The names of all settings, which the service sends with the table. */
  private def known(table: TableMetadata): Set[String] =
    table.settings.elements().asScala.flatMap(_.items("names").map(_.asText())).toSet

  private object Given {
    /** Keeps only known keys, because a session's conf contains secrets too. */
    def apply(
        names: Set[String],
        catalog: String,
        table: TableMetadata,
        options: CaseInsensitiveStringMap,
        conf: SQLConf): Given = {
      def named(given: Map[String, String]): Map[String, String] =
        given.filter { case (key, _) => names.contains(key.toLowerCase(Locale.ROOT)) }
      def unknown(names: Set[String]): Set[String] =
        names.filterNot(key => known(table).contains(key.toLowerCase(Locale.ROOT)) || key.startsWith(Internal))
      val given = options.asCaseSensitiveMap().asScala.toMap
      val ofCatalog = CatalogOptions.ofSession(catalog, conf)
      Given(
        named(given), named(conf.getAllConfs), named(ofCatalog), named(table.properties),
        unknown(given.keySet), unknown(ofCatalog.keySet))
    }
  }

  val HivePartitioning = "use_hive_partitioning"

  /** Whether reads of this session see virtual columns: false after `SET use_hive_partitioning = 0`. */
  def virtualColumnsShown(client: ServiceClient, catalog: String, table: TableMetadata, conf: SQLConf): Boolean =
    of("session", client, catalog, table, CaseInsensitiveStringMap.empty(), conf).flag(HivePartitioning)
}
