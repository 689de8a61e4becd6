package org.apache.spark.sql.catalogext.stream

import com.fasterxml.jackson.core.JsonProcessingException

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.connector.read.streaming.Offset

/**
 * A place in the order of a table's files: everything before it has been read.
 *
 * The order is that of versions, and of positions within a version. A stream that begins with what is there reads the
 * files of one version first (`snapshot`), ordered by partition and name, and then those that later versions added.
 */
case class StreamingOffset(tableId: Long, version: Long, position: Long, snapshot: Boolean) extends Offset {
  override def json(): String = obj(
    "table_id" -> long(tableId), "version" -> long(version), "position" -> long(position),
    "snapshot" -> bool(snapshot)).toString

  /** The last version that has files before this place. */
  def lastVersion: Long = if (snapshot || position > 0) version else version - 1

  def isAfter(file: StreamedFile): Boolean =
    version > file.version || (version == file.version && position > file.position)
}

object StreamingOffset {
  def fromJson(json: String): StreamingOffset = {
    val node = try mapper.readTree(json) catch {
      case e: JsonProcessingException =>
        throw ConnectorErrors.runtime(ConnectorErrors.InvalidValue,
          s"'$json' in the query's checkpoint is no offset of a catalog-ext table; start the query with a new " +
            "checkpoint.", Map("offset" -> json), Some(e))
    }
    StreamingOffset(
      node.field("table_id").asLong(), node.field("version").asLong(), node.field("position").asLong(),
      node.field("snapshot").asBoolean())
  }
}
