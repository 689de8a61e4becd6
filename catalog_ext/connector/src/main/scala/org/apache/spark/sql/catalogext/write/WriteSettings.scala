package org.apache.spark.sql.catalogext.write

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.{SettingText, TableMetadata}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The settings of one write. Precedence: option of the write > session conf > table property > default.
 *
 * @param conf the session's conf when the write was planned
 */
class WriteSettings(catalog: String, table: TableMetadata, val options: CaseInsensitiveStringMap, conf: SQLConf) {
  import WriteSettings._

  private val properties = new CaseInsensitiveStringMap(table.properties.asJava)

  val zone: String = {
    val given = Option(options.get(DateTimeUtils.TIMEZONE_OPTION))
    given.getOrElse(conf.sessionLocalTimeZone)
  }

  /** Rows after which a file is followed by another; 0 for no limit. */
  val maxRecordsPerFile: Long =
    Option(options.get("maxRecordsPerFile")).map(number("maxRecordsPerFile", _)).getOrElse(conf.maxRecordsPerFile)

  val maxFileBytes: Long = setting(MaxFileSize, MaxFileSizeAlias).fold(DefaultMaxFileBytes)(bytes(MaxFileSize, _))

  /** Files that a task keeps open for several partitions; 0 where rows are sorted instead. */
  val maxOpenWriters: Int = setting(MaxOpenWriters).map(number(MaxOpenWriters, _))
    .orElse(Option.when(conf.contains(SQLConf.MAX_CONCURRENT_OUTPUT_FILE_WRITERS.key))(
      conf.maxConcurrentOutputFileWriters.toLong))
    .getOrElse(DefaultMaxOpenWriters).min(Int.MaxValue.toLong).toInt

  val distribution: String = word(DistributionMode, setting(DistributionMode).getOrElse("auto"), "auto", "hash", "none")

  val hiveCompatible: Boolean = flag(HiveCompatible, setting(HiveCompatible).getOrElse("true"))

  val keysInDataFile: Boolean = Option(properties.get(KeysInDataFile)).exists(flag(KeysInDataFile, _))

  val hiveStrategy: Boolean = Option(properties.get("partition_strategy")).exists(_.equalsIgnoreCase("hive"))

  /** How many partitions a write with dynamic keys may touch, and one task of it. */
  val maxPartitions: Option[Long] = plain(MaxDynamicPartitions).map(number(MaxDynamicPartitions, _))
  val maxPartitionsPerTask: Option[Long] =
    plain(MaxDynamicPartitionsPerNode).map(number(MaxDynamicPartitionsPerNode, _))

  /** The batch that `txn-app-id` and `txn-version` name. */
  val application: Option[ApplicationBatch] = (Option(options.get(AppId)), Option(options.get(AppVersion))) match {
    case (Some(id), Some(version)) => Some(ApplicationBatch(id, number(AppVersion, version)))
    case (None, None) => None
    case _ => throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
      s"A write to ${table.qualifiedName} has one of the options '$AppId' and '$AppVersion' without the other: give " +
        "both to have a batch committed once, or neither.", Map("table" -> table.qualifiedName))
  }

  /** The options for `writes/begin`: those of the write, and what the session says of the service's settings. */
  def forService: Map[String, String] = {
    val session = ServiceSettings.flatMap(key => Option(conf.getConfString(sessionKey(key), null)).map(key -> _)).toMap
    session ++ options.asCaseSensitiveMap().asScala
  }

  /** The options of the format's writer: the table's, and those of the write over them. */
  def forFormat: Map[String, String] = {
    val codecs = FormatProperties.flatMap(key => Option(properties.get(key)).map(key -> codec(_))).toMap
    val merged = new java.util.HashMap[String, String]((codecs ++ table.options.map { case (key, value) =>
      key.toLowerCase(Locale.ROOT) -> value
    }).asJava)
    // A codec of the write is the write's, whatever it is called in the table.
    if (options.containsKey("compression")) FormatProperties.foreach(merged.remove)
    merged.putAll(new CaseInsensitiveStringMap(options))
    // Spark's word for '' is a pair of quotes, which text without quotes would keep.
    if (table.format == "csv" && merged.getOrDefault("quote", "\"").isEmpty) merged.putIfAbsent("emptyvalue", "")
    if (hiveCompatible) HiveFiles.options(table.format, merged.asScala.toMap, conf).foreach { case (key, value) =>
      merged.put(key, value)
    }
    merged.asScala.toMap
  }

  /** Doris' word for no compression is Spark's none. */
  private def codec(name: String): String = if (name.trim.equalsIgnoreCase("plain")) "none" else name.trim

  /** As `setting`, of Hive's own names, which a session sets as they are. */
  private def plain(key: String): Option[String] =
    Option(options.get(key)).orElse(Option(conf.getConfString(key, null))).orElse(Option(properties.get(key)))

  private def setting(key: String, aliases: String*): Option[String] = {
    val names = key +: aliases
    names.flatMap(name => Option(options.get(name))).headOption
      .orElse(names.flatMap(name => Option(conf.getConfString(sessionKey(name), null))).headOption)
      .orElse(names.flatMap(name => Option(properties.get(name))).headOption)
      .map(_.trim)
  }

  private def sessionKey(key: String): String = s"spark.sql.catalog.$catalog.$key"

  private def number(key: String, text: String): Long =
    text.trim.toLongOption.filter(_ >= 0).getOrElse(throw invalid(key, text, "give a whole number from 0"))

  private def bytes(key: String, text: String): Long =
    SettingText.bytes(text).getOrElse(throw invalid(key, text, "give a size above zero such as 1048576, 512m or 1g"))

  private def flag(key: String, text: String): Boolean =
    word(key, text, "1", "true", "0", "false") match {
      case "1" | "true" => true
      case _ => false
    }

  private def word(key: String, text: String, words: String*): String =
    words.find(_.equalsIgnoreCase(text.trim)).getOrElse(throw invalid(key, text, s"give ${words.mkString(", ")}"))

  private def invalid(key: String, text: String, remedy: String): Throwable =
    ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
      s"The setting '$key' of a write to ${table.qualifiedName} cannot be '$text': $remedy.",
      Map("key" -> key, "value" -> text))
}

object WriteSettings {
  val DistributionMode = "write.distribution-mode"
  val MaxOpenWriters = "write.max-open-writers"
  val MaxFileSize = "write.max-file-size"
  private val MaxFileSizeAlias = "hive_sink_max_file_size"
  val HiveCompatible = "hive-compatible"
  val KeysInDataFile = "partition_columns_in_data_file"
  val MaxDynamicPartitions = "hive.exec.max.dynamic.partitions"
  val MaxDynamicPartitionsPerNode = "hive.exec.max.dynamic.partitions.pernode"
  val AppId = "txn-app-id"
  val AppVersion = "txn-version"
  private val DefaultMaxFileBytes = 1L << 30
  // Sorting is cheaper than keeping files open: docs/design/2-writes.md has the figures.
  private val DefaultMaxOpenWriters = 0L

  /** Settings that the service reads; a session may give them as `spark.sql.catalog.<name>.<key>`. */
  private val ServiceSettings = Seq("transaction.lease", "staging-dir", "hive_staging_dir", "overwrite-mode")

  /** Table properties that Hive and Doris have for what Spark takes as options. */
  private val FormatProperties = Seq("parquet.compression", "orc.compress", "compression")
}
