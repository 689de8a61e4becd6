package org.apache.spark.sql.catalogext.scan

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.catalog.{ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one read: those of Spark's readers from the read, the session and the table, the nearest first. */
object ReadOptions {
  val MissingFiles = "missing-files"

  /** Options of Spark's readers that are also session confs; a conf that is set goes before the table's option. */
  private val SessionConfs = Map(
    FileSourceOptions.IGNORE_MISSING_FILES.toLowerCase(Locale.ROOT) -> SQLConf.IGNORE_MISSING_FILES.key,
    FileSourceOptions.IGNORE_CORRUPT_FILES.toLowerCase(Locale.ROOT) -> SQLConf.IGNORE_CORRUPT_FILES.key,
    "columnnameofcorruptrecord" -> SQLConf.COLUMN_NAME_OF_CORRUPT_RECORD.key)

  def resolve(
      table: TableMetadata,
      read: CaseInsensitiveStringMap,
      settings: ResolvedSettings,
      conf: SQLConf): CaseInsensitiveStringMap = {
    val fromTable = table.options.filterNot { case (key, _) =>
      SessionConfs.get(key.toLowerCase(Locale.ROOT)).exists(conf.contains)
    }
    val merged = new java.util.HashMap[String, String]()
    canonical(fromTable).foreachEntry((key, value) => merged.put(key, value))
    canonical(read.asScala).foreachEntry((key, value) => merged.put(key, value))
    if (!read.containsKey(FileSourceOptions.IGNORE_MISSING_FILES)) {
      settings.text(MissingFiles).foreach { chosen =>
        merged.put(FileSourceOptions.IGNORE_MISSING_FILES.toLowerCase(Locale.ROOT), (chosen == "skip").toString)
      }
    }
    new CaseInsensitiveStringMap(merged)
  }

  /** Options that have two names. Spark takes the value of the second name where both are given. */
  private val Aliases = Map("delimiter" -> "sep", "charset" -> "encoding")

  /**
   * Options under one name each, in lower case. Without this a read's `delimiter` would stand beside the table's `sep`,
   * and Spark would ignore the read's.
   */
  private def canonical(options: Iterable[(String, String)]): Map[String, String] = {
    val lower = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }.toMap
    lower.collect { case (name, value) if !Aliases.get(name).exists(lower.contains) =>
      Aliases.getOrElse(name, name) -> value
    }
  }
}
