package org.apache.spark.sql.catalogext.scan

import java.util.Locale

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
    lowerCased(fromTable).foreachEntry((key, value) => merged.put(key, value))
    merged.putAll(read)
    if (!read.containsKey(FileSourceOptions.IGNORE_MISSING_FILES)) {
      settings.text(MissingFiles).foreach { chosen =>
        merged.put(FileSourceOptions.IGNORE_MISSING_FILES.toLowerCase(Locale.ROOT), (chosen == "skip").toString)
      }
    }
    new CaseInsensitiveStringMap(merged)
  }

  private def lowerCased(options: Map[String, String]): Map[String, String] =
    options.map { case (key, value) => key.toLowerCase(Locale.ROOT) -> value }
}
