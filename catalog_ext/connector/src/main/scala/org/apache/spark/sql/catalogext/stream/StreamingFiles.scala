package org.apache.spark.sql.catalogext.stream

import org.apache.arrow.vector.BigIntVector
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.catalogext.catalog.{PartitionValues, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{PlannedFiles, PlannedRows}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._

/** A file of a streaming read, with its place in the order. */
case class StreamedFile(version: Long, position: Long, snapshot: Boolean, partition: String, status: FileStatus) {
  def nextOffset(tableId: Long): StreamingOffset = StreamingOffset(tableId, version, position + 1, snapshot)
}

/**
 * The files of a table in the order in which a stream reads them, asked of the service and kept until they are read.
 *
 * @param skipChanges whether versions that removed files are passed over instead of being an error
 */
class StreamingFiles(
    client: ServiceClient,
    table: TableMetadata,
    values: PartitionValues,
    skipChanges: Boolean) {
  private var snapshot: Option[(Long, Vector[StreamedFile])] = None
  // All files that the versions above `after` up to `upto` added.
  private var after = 0L
  private var upto = 0L
  private var added = Vector.empty[StreamedFile]

  /** The files from `start` on, up to those that `version` added. */
  def from(start: StreamingOffset, version: Long): Vector[StreamedFile] = synchronized {
    if (start.snapshot) snapshotOf(start.version).drop(start.position.toInt) ++ addedBy(start.version, version)
    else addedBy(start.version - 1, version).dropWhile(start.isAfter)
  }

  /** Forgets what lies before `end`. */
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
      val partitions = PlannedFiles.fetch(client, table.copy(version = version), values, None)
      val files = for {
        partition <- partitions.sortBy(_.name)
        file <- partition.files.sortBy(_.getPath.getName)
      } yield partition.name -> file
      snapshot = Some(version -> files.iterator.zipWithIndex.map { case ((partition, status), position) =>
        StreamedFile(version, position, snapshot = true, partition, status)
      }.toVector)
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
        val rows = new PlannedRows(table.location, batch)
        val versions = batch.getVector("version").asInstanceOf[BigIntVector]
        val positions = batch.getVector("position").asInstanceOf[BigIntVector]
        for (i <- 0 until batch.getRowCount) {
          files += StreamedFile(
            versions.get(i), positions.get(i), snapshot = false, rows.partition(i), rows.status(i, rows.directory(i)))
        }
      }
      files.result()
    })
  }
}

object StreamingFiles {
  /** Delta's name of the option. */
  val SkipChangeCommits = "skipChangeCommits"
}
