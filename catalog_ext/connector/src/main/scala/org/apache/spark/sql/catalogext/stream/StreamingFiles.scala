package org.apache.spark.sql.catalogext.stream

import com.fasterxml.jackson.core.JsonProcessingException
import org.apache.arrow.vector.BigIntVector

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.scan.{AllFiles, PlannedFiles, PlannedRows}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.connector.read.streaming.Offset

/**
 * A position in the sequence of a table's files: all files before it have been read.
 *
 * Files are ordered by version, and by position within a version. A stream that starts with the existing data first
 * reads the files of one version (`snapshot`), ordered by partition and name, and then the files that later versions
 * added.
 */
case class StreamingOffset(tableId: Long, version: Long, position: Long, snapshot: Boolean) extends Offset {
  override def json(): String = obj(
    "table_id" -> long(tableId), "version" -> long(version), "position" -> long(position),
    "snapshot" -> bool(snapshot)).toString

  /** The last version that has files before this position. */
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

/**
 * A file of a streaming read, with its position.
 *
 * @param location the partition's directory; None for the default directory below the table's location
 * @param path the file's path, relative to the partition's directory
 */
case class StreamedFile(
    version: Long,
    position: Long,
    snapshot: Boolean,
    partition: String,
    location: Option[String],
    path: String,
    size: Long,
    modifiedMs: Long) {
  def nextOffset(tableId: Long): StreamingOffset = StreamingOffset(tableId, version, position + 1, snapshot)
}

/**
 * The files of a table in streaming order, requested from the service and cached until they are read.
 *
 * @param skipChanges whether versions that removed files are skipped instead of raising an error
 */
class StreamingFiles(
    client: ServiceClient,
    table: TableMetadata,
    skipChanges: Boolean) {
  private var snapshot: Option[(Long, Vector[StreamedFile])] = None
  // The cached files: all that the versions above `after` and up to `upto` have added.
  private var after = 0L
  private var upto = 0L
  private var added = Vector.empty[StreamedFile]

  /** The files from `start` up to those that `version` added. */
  def from(start: StreamingOffset, version: Long): Vector[StreamedFile] = synchronized {
    if (start.snapshot) snapshotOf(start.version).drop(start.position.toInt) ++ addedBy(start.version, version)
    else addedBy(start.version - 1, version).dropWhile(start.isAfter)
  }

  /** Drops cached files before `end`. */
  def forget(end: StreamingOffset): Unit = synchronized {
    if (!end.snapshot) {
      snapshot = None
      if (end.version - 1 > after) {
        after = math.min(end.version - 1, upto)
        added = added.dropWhile(_.version <= after)
      }
    }
  }

  private def snapshotOf(version: Long): Vector[StreamedFile] = {
    if (!snapshot.exists(_._1 == version)) {
      val chosen = PlannedFiles.fetch(client, table.copy(version = version), AllFiles, None)
      val files = for (in <- chosen.partitions; i <- 0 until in.count) yield StreamedFile(
        version, 0, snapshot = true, in.name, in.location, in.path(i), in.size(i), in.modifiedMs(i))
      val ordered = files.toVector.sortBy(file => (file.partition, file.path.split('/').last))
      snapshot = Some(version -> ordered.zipWithIndex.map { case (file, place) => file.copy(position = place) })
    }
    snapshot.get._2
  }

  private def addedBy(from: Long, to: Long): Vector[StreamedFile] = {
    if (from < after || from > upto) {
      after = from
      upto = from
      added = Vector.empty
    }
    if (to > upto) {
      added ++= fetch(upto, to)
      upto = to
    }
    added.iterator.dropWhile(_.version <= from).takeWhile(_.version <= to).toVector
  }

  private def fetch(from: Long, to: Long): Vector[StreamedFile] = {
    val request = obj("table_id" -> long(table.tableId), "after" -> long(from), "upto" -> long(to),
      "removals" -> text(if (skipChanges) "skip" else "refuse"))
    ServiceException.translating(client.stream("tables/changes", request) { input =>
      val files = Vector.newBuilder[StreamedFile]
      ArrowRows.foreachBatch(input) { batch =>
        val rows = new PlannedRows(batch)
        val versions = batch.getVector("version").asInstanceOf[BigIntVector]
        val positions = batch.getVector("position").asInstanceOf[BigIntVector]
        for (i <- 0 until batch.getRowCount) files += StreamedFile(versions.get(i), positions.get(i), snapshot = false,
          rows.partition(i), rows.location(i), rows.path(i), rows.size(i), rows.modifiedMs(i))
      }
      files.result()
    })
  }
}

object StreamingFiles {
  /** The name that Delta has for this option. */
  val SkipChangeCommits = "skipChangeCommits"
}
