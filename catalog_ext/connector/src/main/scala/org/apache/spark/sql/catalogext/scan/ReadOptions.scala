package org.apache.spark.sql.catalogext.scan

import java.util.Locale

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one read. Precedence: option of the read > session conf > table option or property > default. */
object ReadOptions {
  val MissingFiles = "missing-files"

  /** Options of Spark's readers that are also session confs; a conf that is set goes before the table's option. */
  private val SessionConfs = Map(
    FileSourceOptions.IGNORE_MISSING_FILES.toLowerCase(Locale.ROOT) -> SQLConf.IGNORE_MISSING_FILES.key,
    FileSourceOptions.IGNORE_CORRUPT_FILES.toLowerCase(Locale.ROOT) -> SQLConf.IGNORE_CORRUPT_FILES.key,
    "columnnameofcorruptrecord" -> SQLConf.COLUMN_NAME_OF_CORRUPT_RECORD.key)

  def resolve(
      catalog: String,
      table: TableMetadata,
      read: CaseInsensitiveStringMap,
      conf: SQLConf): CaseInsensitiveStringMap = {
    val fromTable = table.options.filterNot { case (key, _) =>
      SessionConfs.get(key.toLowerCase(Locale.ROOT)).exists(conf.contains)
    }
    val merged = new java.util.HashMap[String, String]()
    lowerCased(fromTable).foreachEntry((key, value) => merged.put(key, value))
    merged.putAll(read)
    if (!read.containsKey(FileSourceOptions.IGNORE_MISSING_FILES)) {
      missingFiles(catalog, table, read, conf).foreach { skip =>
        merged.put(FileSourceOptions.IGNORE_MISSING_FILES.toLowerCase(Locale.ROOT), skip.toString)
      }
    }
    new CaseInsensitiveStringMap(merged)
  }

  private def lowerCased(options: Map[String, String]): Map[String, String] =
    options.map { case (key, value) => key.toLowerCase(Locale.ROOT) -> value }

  /** Whether missing files are skipped; None where nobody said and Spark's own setting holds. */
  private def missingFiles(
      catalog: String,
      table: TableMetadata,
      read: CaseInsensitiveStringMap,
      conf: SQLConf): Option[Boolean] = {
    val sessionKey = s"spark.sql.catalog.$catalog.$MissingFiles"
    val candidates = Seq(
      s"the option '$MissingFiles' of the read" -> Option(read.get(MissingFiles)),
      s"the session conf '$sessionKey'" -> Option(conf.getConfString(sessionKey, null)),
      SQLConf.IGNORE_MISSING_FILES.key ->
        Option.when(conf.contains(SQLConf.IGNORE_MISSING_FILES.key))(if (conf.ignoreMissingFiles) "skip" else "error"),
      s"the property '$MissingFiles' of table ${table.qualifiedName}" -> lowerCased(table.properties).get(MissingFiles))
    candidates.collectFirst { case (where, Some(value)) =>
      value.toLowerCase(Locale.ROOT) match {
        case "skip" => true
        case "error" => false
        case _ => throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
          s"'$value' is no value of $where: give 'skip' or 'error'.", Map("value" -> value))
      }
    }
  }

  /** `SET use_hive_partitioning = 0`: reads of this session see no virtual columns. */
  def virtualColumnsShown(conf: SQLConf): Boolean = {
    val key = "use_hive_partitioning"
    conf.getConfString(key, "1").trim.toLowerCase(Locale.ROOT) match {
      case "1" | "true" => true
      case "0" | "false" => false
      case other => throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
        s"'$other' is no value of the session conf '$key': give 1, 0, true or false.", Map("value" -> other))
    }
  }
}
