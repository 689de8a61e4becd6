package org.apache.spark.sql.catalogext.write

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{LocalFileSystem, ParentNotDirectoryException, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.service.Json._

/** A file of a task: its partition, the directory of the partition's files, and its name. */
case class TargetFile(partition: String, directory: String, name: String) {
  def path: Path = new Path(s"$directory/$name")
}

/**
 * Keeps the files of one task invisible until the driver commits, and reports them to the driver. It is used by one
 * thread.
 */
abstract class FileStaging(job: WriteJob, conf: Configuration) extends Logging {
  /** The path to which the task's writer writes the file. */
  def pathFor(file: TargetFile): String

  /** The number of bytes that have been written to the file so far. */
  def size(path: String): Long = {
    val file = new Path(path)
    WriteErrors.storing(job.tableName, path)(file.getFileSystem(conf).getFileStatus(file).getLen)
  }

  /** Called when a file is complete. */
  def closed(file: TargetFile, path: String, rows: Long): Unit

  /** Stages all files and returns them in the contract's form. */
  def commit(): JsonNode

  /** Removes the files of the task. Remaining files are found later by the transaction's id. */
  def abort(): Unit

  /** Releases local resources of the task. */
  def close(): Unit

  protected def report(file: TargetFile, size: Long, rows: Long, path: Path, upload: JsonNode): JsonNode =
    obj("partition" -> text(file.partition), "name" -> text(file.name), "size" -> long(size), "rows" -> long(rows),
      "statistics" -> statistics(path), "upload" -> upload)

  private def statistics(path: Path): JsonNode = {
    val found = FileStatistics.read(job.format, path, conf, job.statisticsSchema)
    // Add the version from which on the name belongs to this column, because several columns may have had the same
    // name.
    job.statisticsAfter.foreach { case (name, version) =>
      Option(found.get(name)).foreach(_.asInstanceOf[ObjectNode].put("after", version))
    }
    found
  }

  protected def remove(path: Path): Unit =
    try path.getFileSystem(conf).delete(path, false) catch {
      case NonFatal(e) => logWarning(s"File $path of an aborted task was not deleted", e)
    }
}

object FileStaging {
  def apply(job: WriteJob, conf: Configuration): FileStaging =
    if (job.stagingLocations.upload) new UploadStaging(job, conf) else new RenameStaging(job, conf)
}

/** For stores with directories: files are written to the hidden staging directory and renamed by the driver. */
class RenameStaging(job: WriteJob, conf: Configuration) extends FileStaging(job, conf) {
  import RenameStaging._

  private val made = mutable.ArrayBuffer.empty[Path]
  private val finished = mutable.ArrayBuffer.empty[JsonNode]

  override def pathFor(file: TargetFile): String = {
    val path = file.path
    made += path
    path.getFileSystem(conf) match {
      case local: LocalFileSystem =>
        WriteErrors.storing(job.tableName, path.toString)(makeDirectory(local, path.getParent, MostTries))
      case _ => // mkdirs makes a directory and its parents at once
    }
    path.toString
  }

  /**
   * Creates a directory, and tries again if that fails: Hadoop creates local directories one by one, while another
   * write to the table may remove the empty staging directory.
   */
  @tailrec private def makeDirectory(local: LocalFileSystem, directory: Path, tries: Int): Unit = {
    val made = try local.mkdirs(directory) catch {
      case _: ParentNotDirectoryException if tries > 1 => false
    }
    if (!made && tries > 1) makeDirectory(local, directory, tries - 1)
  }

  override def closed(file: TargetFile, path: String, rows: Long): Unit =
    finished += WriteErrors.storing(job.tableName, path)(report(file, size(path), rows, new Path(path), Null))

  override def commit(): JsonNode = arr(finished)
  override def abort(): Unit = made.foreach(remove)
  override def close(): Unit = ()
}

private object RenameStaging {
  private val MostTries = 10
}
