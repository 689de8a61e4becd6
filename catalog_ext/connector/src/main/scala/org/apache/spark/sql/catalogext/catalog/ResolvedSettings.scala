package org.apache.spark.sql.catalogext.catalog

import java.util.{Collections, LinkedHashMap, Locale, Map => JMap}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.{ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The settings of one use of a table as the service resolved them: typed, by key; null if a setting has no value. */
class ResolvedSettings(values: JsonNode) {
  def text(key: String): Option[String] = values.stringOption(key)
  def long(key: String): Option[Long] = values.longOption(key)
  def flag(key: String): Boolean = values.field(key).asBoolean()
}

/**
 * Asks the service what settings come to. Defaults, aliases, grammar and precedence are its own; here is only collected
 * what the options and the session say.
 */
object ResolvedSettings {
  private val Remembered = 1000
  /** What Spark and we put among the options of people begins so. */
  private val Internal = "__"
  private val InOrderOfUse = true
  private val known = Collections.synchronizedMap(
    new LinkedHashMap[Question, JsonNode](16, 0.75f, InOrderOfUse) {
      override def removeEldestEntry(eldest: JMap.Entry[Question, JsonNode]): Boolean = size > Remembered
    })

  /** Asks for the settings of a table that is not there yet, as they come with one that is. */
  def ofNewTable(client: ServiceClient, table: String, properties: Map[String, String]): JsonNode = {
    val request = obj("table" -> text(table), "properties" -> map(properties))
    ServiceException.translating(client.call("settings/load", request)).field("settings")
  }

  /**
   * The settings of a use, which docs/spec/service.md lists. Where neither the options nor the session give one, they
   * came with the table, and the service is not asked.
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
    // Beside no property of the table its name does not matter, but in the message of an error.
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

  /** What an answer depends on: besides what was given, the service and what it resolved for the table itself. */
  private case class Question(
      service: String,
      use: String,
      catalog: String,
      table: Option[String],
      given: Given,
      own: JsonNode)

  /** What people gave that concerns the use; of all else only the names, among which the service looks for slips. */
  private case class Given(
      options: Map[String, String],
      session: Map[String, String],
      catalogConf: Map[String, String],
      properties: Map[String, String],
      others: Set[String],
      othersOfCatalog: Set[String]) {
    /** Whether there is more than the table's own settings have in them. */
    def overrides: Boolean = 
      options.nonEmpty || session.nonEmpty || catalogConf.nonEmpty || others.nonEmpty || othersOfCatalog.nonEmpty
  }

  /** The names of all settings, which came with the table. */
  private def known(table: TableMetadata): Set[String] =
    table.settings.elements().asScala.flatMap(_.items("names").map(_.asText())).toSet

  private object Given {
    /** Only what has one of the names: a session's conf holds secrets too. */
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

  /** `SET use_hive_partitioning = 0`: reads of this session see no virtual columns. */
  def virtualColumnsShown(client: ServiceClient, catalog: String, table: TableMetadata, conf: SQLConf): Boolean =
    of("session", client, catalog, table, CaseInsensitiveStringMap.empty(), conf).flag(HivePartitioning)
}
