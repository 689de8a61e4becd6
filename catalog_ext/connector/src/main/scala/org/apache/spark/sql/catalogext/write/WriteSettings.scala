package org.apache.spark.sql.catalogext.write

import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogOptions, KeyZone, ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The settings of one write, resolved by the service, and the options for the format's writer.
 *
 * @param conf the session's conf when the write was planned
 */
class WriteSettings(
    client: ServiceClient,
    catalog: String,
    table: TableMetadata,
    val options: CaseInsensitiveStringMap,
    conf: SQLConf) {
  import WriteSettings._

  private val properties = new CaseInsensitiveStringMap(table.properties.asJava)
  private val resolved = ResolvedSettings.of("write", client, catalog, table, options, conf)

  val zone: String = KeyZone.of(table, conf, options)

  /** Rows after which a new file is opened; 0 means no limit. */
  val maxRecordsPerFile: Long = resolved.long("maxRecordsPerFile").get

  val maxFileBytes: Long = resolved.long("write.max-file-size").get

  /** Number of leading columns with statistics for each file; None for all. */
  val statisticsColumns: Option[Int] = resolved.long("write.statistics-columns").map(_.toInt)

  /** Number of files that a task keeps open for different partitions; 0 sorts the rows instead. */
  val maxOpenWriters: Int = resolved.long("write.max-open-writers").get.min(Int.MaxValue.toLong).toInt

  /** Whether a shuffle brings the rows of a partition to one task. */
  val clusters: Boolean = resolved.text("write.distribution-mode").contains("hash")

  val hiveCompatible: Boolean = resolved.flag("hive-compatible")

  val keysInDataFile: Boolean = resolved.flag("partition_columns_in_data_file")

  val hiveStrategy: Boolean = resolved.text("partition_strategy").contains("hive")

  /** Whether partitions become visible by the query's watermark. */
  val byWatermark: Boolean = resolved.text("sink.partition-commit.trigger").contains("partition-time")

  /** Maximum number of partitions for a write with dynamic keys, and for one of its tasks. */
  val maxPartitions: Option[Long] = resolved.long(MaxDynamicPartitions)
  val maxPartitionsPerTask: Option[Long] = resolved.long(MaxDynamicPartitionsPerNode)

  /** The batch of `txn-app-id` and `txn-version`; the service checks that both or none are given. */
  val application: Option[ApplicationBatch] =
    for (id <- resolved.text("txn-app-id"); version <- resolved.long("txn-version")) yield ApplicationBatch(id, version)

  /** The values that `writes/begin` and `writes/release` require: the write's options and the session's conf. */
  def forService: Seq[(String, JsonNode)] = Seq(
    "options" -> map(options.asCaseSensitiveMap().asScala), "session" -> map(CatalogOptions.ofSession(catalog, conf)))

  /** The options for the format's writer: the table's, overridden by the write's. */
  def forFormat: Map[String, String] = {
    val codecs = FormatProperties.flatMap(key => Option(properties.get(key)).map(key -> codec(_))).toMap
    val merged = new java.util.HashMap[String, String]((codecs ++ named(table.options)).asJava)
    val given = named(options.asCaseSensitiveMap().asScala)
    // If the write names a codec, remove the table's codec, whichever of the names it has.
    if (given.contains(Compression)) FormatProperties.foreach(merged.remove)
    merged.putAll(given.asJava)
    if (table.format == "csv" && merged.getOrDefault("quote", "\"").isEmpty) {
      // By default Spark writes the empty string as a pair of quotes, which unquoted text would keep as data.
      merged.putIfAbsent("emptyvalue", "")
      // By default Spark trims blanks at both ends of a string; Hive keeps them.
      Seq("ignoreleadingwhitespace", "ignoretrailingwhitespace").foreach(merged.putIfAbsent(_, "false"))
    }
    if (hiveCompatible) HiveFiles.options(table.format, merged.asScala.toMap, conf).foreach { case (key, value) =>
      merged.put(key, value)
    }
    merged.asScala.toMap
  }

  /** The options with names in lower case. For CSV, Spark has two names for the codec, of which `compression` wins. */
  private def named(options: Iterable[(String, String)]): Map[String, String] = {
    val lower = options.map { case (key, value) => key.toLowerCase(Locale.ROOT) -> value }.toMap
    val (codecs, others) = lower.partition { case (key, _) => table.format == "csv" && key == Codec }
    codecs.map { case (_, codec) => Compression -> codec } ++ others
  }

  /** The codec's name in Spark: Doris has "plain" for no compression, and Spark has "none". */
  private def codec(name: String): String = if (name.trim.equalsIgnoreCase("plain")) "none" else name.trim
}

object WriteSettings {
  val MaxDynamicPartitions = "hive.exec.max.dynamic.partitions"
  val MaxDynamicPartitionsPerNode = "hive.exec.max.dynamic.partitions.pernode"

  /** Table properties of Hive and Doris that correspond to Spark's options. */
  private val FormatProperties = Seq("parquet.compression", "orc.compress", "compression")
  private val Compression = "compression"
  private val Codec = "codec"
}
