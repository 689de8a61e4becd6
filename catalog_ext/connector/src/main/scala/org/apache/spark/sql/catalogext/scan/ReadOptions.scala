package org.apache.spark.sql.catalogext.scan

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.catalogext.catalog.{ResolvedSettings, TableMetadata}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.{FileIndexOptions, PathFilterFactory}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The reader options of one read. Options of the read win over the session's, and these over the table's. */
object ReadOptions {
  val MissingFiles = "missing-files"

  /**
   * Options of Spark's readers that are session confs too. A conf that is set in the session wins over the table's
   * option.
   */
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

  /** Pairs of names of one option. If both are given, Spark uses the value of the second name. */
  private val Aliases = Map("delimiter" -> "sep", "charset" -> "encoding")

  /**
   * The options in lower case, each under the first of its names. Otherwise the table's `sep` would win over a read's
   * `delimiter`.
   */
  private def canonical(options: Iterable[(String, String)]): Map[String, String] = {
    val lower = options.map { case (name, value) => name.toLowerCase(Locale.ROOT) -> value }.toMap
    lower.collect { case (name, value) if !Aliases.get(name).exists(lower.contains) =>
      Aliases.getOrElse(name, name) -> value
    }
  }
}

/**
 * The reader options that select files by name and time. Spark applies them when it lists directories, which does not
 * happen here, so they are applied to the files of the index or of a path.
 */
class FileFilters(options: CaseInsensitiveStringMap) {
  private val filters = PathFilterFactory.create(CaseInsensitiveMap(options.asCaseSensitiveMap().asScala.toMap))

  /** Whether the options exclude no file, so that statistics of the whole table hold. */
  def isEmpty: Boolean = filters.isEmpty

  def accepts(file: FileStatus): Boolean = filters.forall(_.accept(file))
}

object FileFilters {
  import FileIndexOptions._

  /** Names of options that only some releases of Spark have (since 4.3). */
  private val IgnoredNames = Set("ignoredPathSegmentRegex")

  /**
   * Raises an analysis error for an option that affects the listing of directories: the index determines a table's
   * files.
   */
  def checkTable(table: String, options: CaseInsensitiveStringMap): Unit = {
    if (options.getBoolean(RECURSIVE_FILE_LOOKUP, false)) throw ConnectorErrors.notSupported(
      s"Table $table is read with the option $RECURSIVE_FILE_LOOKUP, and its files are those that lie directly in its " +
        "registered partitions. Leave the option out; to read all files below a folder, read the folder by its path.")
    checkHiddenNames(s"Table $table", options)
  }

  /**
   * Raises an analysis error for an option that affects the listing of a path: the path itself is a pattern, and a
   * directory includes all files below it, as with recursiveFileLookup.
   */
  def checkPath(path: String, options: CaseInsensitiveStringMap): Unit = {
    if (options.containsKey(PATH_GLOB_FILTER)) throw ConnectorErrors.notSupported(
      s"The path $path is read with the option $PATH_GLOB_FILTER, which comes too late to choose its columns by. Say it " +
        s"in the path, as by '/**/${options.get(PATH_GLOB_FILTER)}' at its end.")
    checkHiddenNames(s"The path $path", options)
  }

  private def checkHiddenNames(what: String, options: CaseInsensitiveStringMap): Unit =
    IgnoredNames.filter(options.containsKey).foreach(name => throw ConnectorErrors.notSupported(
      s"$what is read with the option $name; hidden names are those that begin with '_' or '.', " +
        "and no others. Leave the option out."))

  /**
   * Raises an analysis error if a stream has options that select files by time; Spark's own streams refuse them too.
   */
  def checkStream(table: String, options: CaseInsensitiveStringMap): Unit =
    Seq(MODIFIED_AFTER, MODIFIED_BEFORE).find(options.containsKey).foreach(option => throw ConnectorErrors.notSupported(
      s"The stream from table $table has the option $option, which only batch reads take. Say where the stream begins " +
        "by the option startingVersion."))
}
