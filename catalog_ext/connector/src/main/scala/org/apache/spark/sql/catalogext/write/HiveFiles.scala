package org.apache.spark.sql.catalogext.write

import java.util.Locale

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * The settings by which written files are readable by Hive 2.3 to 4; `docs/spec/metastore.md` gives the reason for
 * each. Options of the write or the table, and session confs, win over them.
 */
object HiveFiles {
  private val TimestampLayout = "yyyy-MM-dd HH:mm:ss.SSSSSS"

  /** Writer options of the format to be added to the given ones. */
  def options(format: String, given: Map[String, String], conf: SQLConf): Map[String, String] = format match {
    case "orc" if !conf.contains(SQLConf.ORC_COMPRESSION.key) && !given.contains("compression") &&
        !given.contains("orc.compress") =>
      Map("compression" -> "snappy")
    case "csv" | "json" =>
      Seq("timestampformat", "timestampntzformat").filterNot(given.contains).map(_ -> TimestampLayout).toMap
    case _ => Map.empty
  }

  /** Settings for the job's Hadoop configuration and the tasks' SQL conf, unless the options set them. */
  def settings(format: String, given: Map[String, String]): Map[String, String] =
    if (format != "parquet") Map.empty
    else Map(
      SQLConf.PARQUET_WRITE_LEGACY_FORMAT.key -> "true",
      SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key -> "INT96",
      SQLConf.PARQUET_REBASE_MODE_IN_WRITE.key -> "LEGACY",
      SQLConf.PARQUET_INT96_REBASE_MODE_IN_WRITE.key -> "LEGACY") ++
      given.collect { case (key, value) if Named.contains(key) => Named(key) -> value }

  private val Named: Map[String, String] = Seq(
    SQLConf.PARQUET_WRITE_LEGACY_FORMAT, SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE, SQLConf.PARQUET_REBASE_MODE_IN_WRITE,
    SQLConf.PARQUET_INT96_REBASE_MODE_IN_WRITE).map(entry => entry.key.toLowerCase(Locale.ROOT) -> entry.key).toMap

  /** The schema of a file. Hive matches column names in ORC files case-sensitively and has them in lower case. */
  def schema(format: String, schema: StructType, caseSensitive: Boolean): StructType =
    if (format == "orc" && !caseSensitive) lowerCased(schema).asInstanceOf[StructType] else schema

  private def lowerCased(dataType: DataType): DataType = dataType match {
    case s: StructType =>
      StructType(s.map(f => f.copy(name = f.name.toLowerCase(Locale.ROOT), dataType = lowerCased(f.dataType))))
    case a: ArrayType => a.copy(elementType = lowerCased(a.elementType))
    case m: MapType => m.copy(keyType = lowerCased(m.keyType), valueType = lowerCased(m.valueType))
    case other => other
  }
}
