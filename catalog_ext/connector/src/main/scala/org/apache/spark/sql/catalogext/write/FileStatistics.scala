package org.apache.spark.sql.catalogext.write

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.types.StructType

/**
 * The statistics in the footer of a finished file: the least and the greatest value of its columns, where the format gives
 * them exactly, and the number of NULLs. `docs/design/14-statistics.md` says which statistics are unknown, and why.
 *
 * Left out are bounds of TIMESTAMP (their text depends on a session's zone), of BINARY, of long strings, and whatever
 * a format cuts short or cannot order, such as NaN.
 */
object FileStatistics {
  /** The columns of `schema`, which may be a part of the file's; nothing of formats without footers. */
  def read(format: String, path: Path, conf: Configuration, schema: StructType): JsonNode =
    if (schema.isEmpty) obj()
    else counted(format, path.getFileSystem(conf).getFileStatus(path), conf, schema).fold(obj())(_._2)

  /**
   * The rows of a file, and the statistics that `read` returns, in one opening; None of formats without footers. A column
   * that is left out is unknown, and so is a statistic that is null. The store is not asked for the file's status
   * again.
   */
  def counted(
      format: String,
      file: => FileStatus,
      conf: Configuration,
      schema: StructType): Option[(Long, ObjectNode)] = {
    val measured = format match {
      case "parquet" => Some(ParquetFooter.measured(file, conf, schema))
      case "orc" => Some(OrcFooter.measured(file, conf, schema))
      case _ => None
    }
    measured.map { case (rows, columns) =>
      val known = schema.flatMap(field => columns.get(field.name).filterNot(_.isUnknown).map(field -> _))
      (rows, obj(known.map { case (field, column) => field.name -> column.json(field.dataType) }: _*))
    }
  }
}
