package org.apache.spark.sql.catalogext.scan

import java.util.{Collections, LinkedHashMap, Map => JMap}

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.catalogext.write.FileStatistics
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/** The rows of a few files that nobody has counted, out of their footers, read on the driver. */
object FooterRows {
  /** Of more, tasks read the footers, by a scan. */
  val MostFiles = 100

  private val Threads = 16
  private val Remembered = 10000
  private val InOrderOfUse = true
  private val known = Collections.synchronizedMap(
    new LinkedHashMap[FileVersion, Long](16, 0.75f, InOrderOfUse) {
      override def removeEldestEntry(eldest: JMap.Entry[FileVersion, Long]): Boolean = size > Remembered
    })

  private case class FileVersion(path: String, size: Long, modifiedMillis: Long)

  /** The rows of each file; None where one cannot be read, of which a scan then says why. */
  def of(format: String, conf: Configuration, files: Seq[FileStatus]): Option[Seq[Long]] = {
    val versions = files.map(file => FileVersion(file.getPath.toString, file.getLen, file.getModificationTime))
    val unread = files.zip(versions).filterNot { case (_, version) => known.containsKey(version) }
    val read = ThreadUtils.parmap(unread, "catalog-ext-footers", Threads) { case (file, version) =>
      version -> Try(FileStatistics.counted(format, file.getPath, conf, StructType(Nil))).toOption.flatten.map(_._1)
    }.toMap
    read.foreach { case (version, rows) => rows.foreach(known.put(version, _)) }
    val rows = versions.map(version => read.getOrElse(version, Option(known.get(version))))
    Option.when(rows.forall(_.isDefined))(rows.flatten)
  }
}
