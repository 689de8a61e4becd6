package org.apache.spark.sql.catalogext.catalog

import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.{ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The settings of one read, write or stream as the service resolved them: typed, by key; null where there is none. */
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
  /** What the service answered, by its address, the request and what it resolved for the table itself. */
  private val known = new ConcurrentHashMap[(String, JsonNode, JsonNode), JsonNode]

  /**
   * The settings of a use: `read`, `write`, `insert`, `stream` or `session`. Where neither the options nor the session
   * give one, they came with the table, and nobody is asked.
   */
  def of(
      use: String,
      client: ServiceClient,
      catalog: String,
      table: TableMetadata,
      options: CaseInsensitiveStringMap,
      conf: SQLConf): ResolvedSettings = {
    val loaded = table.settings.map(_.field(use))
    val given = Given(catalog, loaded.map(_.items("names").map(_.asText()).toSet), options, conf)
    val own = loaded.map(_.field("values")).filterNot(_.isNull)
    def request = obj(
      "use" -> text(use), "table" -> text(table.qualifiedName), "catalog" -> text(catalog),
      "options" -> map(given.options), "session" -> map(given.session), "catalog_conf" -> map(given.catalogConf),
      "properties" -> map(table.properties))
    new ResolvedSettings(own match {
      case Some(values) if given.isEmpty => values
      case Some(values) => remembered(client, request, values)
      case None => ask(client, request)
    })
  }

  private def remembered(client: ServiceClient, request: JsonNode, own: JsonNode): JsonNode = {
    val key = (client.uri, request, own)
    Option(known.get(key)).getOrElse {
      val values = ask(client, request)
      if (known.size >= Remembered) known.clear()
      known.put(key, values)
      values
    }
  }

  private def ask(client: ServiceClient, request: JsonNode): JsonNode =
    ServiceException.translating(client.call("settings/resolve", request)).field("values")

  /** What people gave that concerns the use. */
  private case class Given(
      options: Map[String, String],
      session: Map[String, String],
      catalogConf: Map[String, String]) {
    def isEmpty: Boolean = options.isEmpty && session.isEmpty && catalogConf.isEmpty
  }

  /** What the session can say of a write to a table that is not there yet. */
  private val WithoutTable = Seq(
    "hive.exec.", SQLConf.MAX_CONCURRENT_OUTPUT_FILE_WRITERS.key, SQLConf.MAX_RECORDS_PER_FILE.key)

  private object Given {
    /** Of the names that the service knows for the use; all that could be one where it has not said which. */
    def apply(
        catalog: String,
        names: Option[Set[String]],
        options: CaseInsensitiveStringMap,
        conf: SQLConf): Given = {
      def known(given: Map[String, String]): Map[String, String] =
        given.filter { case (key, _) => names.forall(_.contains(key.toLowerCase(Locale.ROOT))) }
      // A session's conf holds secrets too: what the service does not ask for stays here.
      val others = conf.getAllConfs.filter { case (key, _) => names.isDefined || WithoutTable.exists(key.startsWith) }
      Given(
        known(options.asCaseSensitiveMap().asScala.toMap), known(others),
        known(CatalogOptions.ofSession(catalog, conf)))
    }
  }

  val HivePartitioning = "use_hive_partitioning"

  /** `SET use_hive_partitioning = 0`: reads of this session see no virtual columns. */
  def virtualColumnsShown(client: ServiceClient, catalog: String, table: TableMetadata, conf: SQLConf): Boolean =
    of("session", client, catalog, table, CaseInsensitiveStringMap.empty(), conf).flag(HivePartitioning)
}
