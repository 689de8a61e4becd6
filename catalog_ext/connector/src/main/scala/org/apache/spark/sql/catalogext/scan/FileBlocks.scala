package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, LocatedFileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.internal.config.LOCALITY_WAIT
import org.apache.spark.SparkConf
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{FilePartition, FileStatusWithMetadata, PartitionedFile}
import org.apache.spark.util.ThreadUtils

/** Block locations: the hosts that store the blocks of files, if tasks can run there. */
private[catalogext] trait FileBlocks {
  /** Starts a new collection, for the files of the next partition. */
  def ofPartition(): PartitionHosts
}

/** The hosts of the file parts that one task reads. */
private[catalogext] trait PartitionHosts {
  def add(parts: FileParts, part: Int): Unit
  /** The hosts that store most of the bytes of the parts that were added since the last call. */
  def take(): Array[String]
}

private[catalogext] object FileBlocks extends Logging {
  private val Threads = 16
  // For more files than this, block locations are not requested: a name node answers a few thousand requests per
  // second, so that asking would take longer than reading from other hosts.
  private val MostFiles = 10000
  private val NoHosts = Array.empty[String]

  /** The implementation for stores without block locations, such as object stores: no hosts. */
  object Nowhere extends FileBlocks with PartitionHosts {
    override def ofPartition(): PartitionHosts = this
    override def add(parts: FileParts, part: Int): Unit = ()
    override def take(): Array[String] = NoHosts
  }

  /**
   * The block locations of a scan's files, from HDFS. `Nowhere` for other stores, if tasks do not wait for hosts, or if
   * there are too many files.
   */
  def of(files: ChosenFiles, tableLocation: String, spark: SparkConf, hadoop: Configuration): FileBlocks = {
    val isHdfs = new Path(tableLocation).toUri.getScheme == "hdfs"
    if (!isHdfs || files.choice.files > MostFiles || spark.get(LOCALITY_WAIT) <= 0) Nowhere
    else located(files, tableLocation, hadoop)
  }

  private[catalogext] def located(files: ChosenFiles, tableLocation: String, hadoop: Configuration): FileBlocks = {
    val statuses = ArrayBuffer.empty[FileStatus]
    files.partitions.foreach { directory =>
      val place = directory.directory(tableLocation)
      (0 until directory.count).foreach(file => statuses += directory.status(file, place))
    }
    val found = ThreadUtils.parmap(statuses.toSeq, "catalog-ext-blocks", Threads)(status => located(status, hadoop))
    new LocatedBlocks(found.flatten.map(status => status.getPath -> status).toMap, tableLocation)
  }

  /** None if the file is missing, since the index may be out of date. The task that reads the file reports that. */
  private def located(status: FileStatus, hadoop: Configuration): Option[LocatedFileStatus] = try {
    val store = status.getPath.getFileSystem(hadoop)
    Some(new LocatedFileStatus(status, store.getFileBlockLocations(status.getPath, 0, status.getLen)))
  } catch {
    case NonFatal(e) =>
      logWarning(s"HDFS does not say where the blocks of ${status.getPath} are; the file is read from anywhere.", e)
      None
  }
}

private class LocatedBlocks(statuses: Map[Path, LocatedFileStatus], tableLocation: String) extends FileBlocks {
  override def ofPartition(): PartitionHosts = new PartitionHosts {
    private val parts = ArrayBuffer.empty[PartitionedFile]

    override def add(of: FileParts, number: Int): Unit = {
      val part = of(number)
      val directory = of.batch.partitionOf(part.file).directory(tableLocation)
      val path = new Path(FilePaths.join(directory, of.batch.paths(part.file)))
      statuses.get(path).foreach { status =>
        parts += PartitionedFileUtil.getPartitionedFile(
          FileStatusWithMetadata(status), path, InternalRow.empty, part.start, part.length)
      }
    }

    override def take(): Array[String] = {
      val hosts = FilePartition(0, parts.toArray).preferredLocations()
      parts.clear()
      hosts
    }
  }
}
