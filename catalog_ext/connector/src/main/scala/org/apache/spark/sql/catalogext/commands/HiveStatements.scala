package org.apache.spark.sql.catalogext.commands

import java.net.URI
import java.util.UUID

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{ChecksumFileSystem, FileContext, FileStatus, FileSystem, FileUtil, FsConstants, Path}

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, Json, RequestOutcome, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.session.CachedPlans
import org.apache.spark.sql.catalogext.write.WriteErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LoadDataCommand
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec

/**
 * LOAD DATA. The service moves files that are on the table's store. Files of the driver's local disk are first copied
 * into a hidden directory of the table and loaded from there; if the statement dies, the originals are untouched. The
 * copies are deleted once the service has answered; otherwise a vacuum deletes them.
 */
case class LoadDataExec(
    table: CatalogExtTable, path: String, isLocal: Boolean, overwrite: Boolean, spec: Option[Map[String, String]])
  extends LeafV2CommandExec {

  override def output: Seq[Attribute] = Nil

  private lazy val hadoopConf = session.sessionState.newHadoopConf()

  override protected def run(): Seq[InternalRow] = {
    ServiceException.translating(if (isLocal) loadCopies() else load(qualified.toString))
    CachedPlans.refresh(session, table)
    Nil
  }

  /**
   * The absolute form of the path: as in Hive and Spark, a relative path is below the user's directory in the default
   * file system.
   */
  private def qualified: Path = LoadDataCommand.makeQualified(
    URI.create(hadoopConf.get("fs.defaultFS", "")), new Path(s"/user/${System.getProperty("user.name")}/"), new Path(path))

  private def loadCopies(): Unit = {
    val copies = new Path(s"${table.metadata.location}/${LoadDataExec.Staging}/load-${UUID.randomUUID()}")
    val target = withoutChecksums(copies.getFileSystem(hadoopConf))
    var isUsed = false
    try {
      WriteErrors.storing(table.name(), copies.toString) {
        val files = localFiles
        val twins = files.map(_.getName).distinct.size < files.size
        files.zipWithIndex.foreach { case (file, number) =>
          // Put a number before each name if two files of different directories have the same name.
          val copy = new Path(copies, if (twins) s"$number-${file.getName}" else file.getName)
          FileUtil.copy(file.getFileSystem(hadoopConf), file, target, copy, false, false, hadoopConf)
        }
      }
      isUsed = true
      load(copies.toString)
      isUsed = false
    } catch {
      case e: Throwable =>
        isUsed = isUsed && RequestOutcome.isUnknown(e)
        throw e
    } finally {
      // If the outcome is unknown, keep the copies: the service may be moving them, or recovery moves them later.
      if (!isUsed) remove(copies)
      else logWarning(s"Whether LOAD DATA into table ${table.name()} is committed is not known, so its copies of the files " +
        s"stay at $copies: the service may still need them. A vacuum of the table deletes those that are left")
    }
  }

  /**
   * Hadoop puts a checksum file (`.a=1.csv.crc`) next to each file that it writes to a local disk. The service takes
   * such files as hidden, so nothing would delete them after it has moved the copies.
   */
  private def withoutChecksums(store: FileSystem): FileSystem = store match {
    case local: ChecksumFileSystem => local.getRawFileSystem
    case other => other
  }

  private def remove(copies: Path): Unit =
    try copies.getFileSystem(hadoopConf).delete(copies, true) catch {
      case NonFatal(e) => logWarning(s"The copies at $copies that LOAD DATA has made were not deleted", e)
    }

  private def localFiles: Seq[Path] = {
    val working = FileContext.getLocalFSFileContext().getWorkingDirectory
    val given = LoadDataCommand.makeQualified(FsConstants.LOCAL_FS_URI, working, new Path(path))
    val local = given.getFileSystem(hadoopConf)
    val found = Option(local.globStatus(given)).fold(Seq.empty[FileStatus])(_.toSeq)
    if (found.isEmpty) throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"Nothing lies at $given on the driver's disk, which was to be loaded into table ${table.name()}. Correct the " +
        "path; without LOCAL it is one on the table's store.")
    // Leave out hidden files that a wildcard matches, as the service does for paths on the store.
    val wild = LoadDataExec.beginsWithWildcard(given.getName)
    val named = found.filterNot(one => wild && LoadDataExec.isHidden(one.getPath.getName))
    named.filter(one => one.isFile && LoadDataExec.isHidden(one.getPath.getName)).map(_.getPath).foreach(location =>
      throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
        s"The file $location cannot be loaded into table ${table.name()}: names that begin with '_' or '.' are " +
          "hidden from every reader. Rename it."))
    val files = named.flatMap { status =>
      if (!status.isDirectory) Seq(status)
      else local.listStatus(status.getPath).toSeq.filterNot(one => LoadDataExec.isHidden(one.getPath.getName))
    }
    files.find(_.isDirectory).foreach(nested => throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"$given holds the directory ${nested.getPath.getName}, and LOAD DATA loads the files of one directory into " +
        s"table ${table.name()}. Load each directory by a statement of its own."))
    if (files.isEmpty) throw ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"There is no file at $given that could be loaded into table ${table.name()}. Nothing was changed. " +
        "Correct the path; to empty a table or a partition, run TRUNCATE TABLE.")
    files.map(_.getPath)
  }

  /** Raises ServiceException for an error answer. */
  private def load(place: String): Unit = {
    val request = obj(
      "table_id" -> long(table.metadata.tableId), "version" -> long(table.metadata.version),
      "path" -> text(place), "spec" -> spec.fold[JsonNode](Null)(Json.map(_)), "overwrite" -> bool(overwrite),
      "session" -> PartitionClauses.changing(table.catalogName))
    // The request may move many files, so it has no time limit.
    table.client.call("writes/load", request, limited = false)
  }
}

private object LoadDataExec {
  /**
   * The directory for copies of local files. Its name hides it from readers; `catalog_ext/writes/loading.py` accepts
   * files from it.
   */
  val Staging = "_catalog_ext_staging"

  /** As `is_hidden` of `metastore/model/partition_names.py`. */
  def isHidden(name: String): Boolean = name.startsWith(".") || (name.startsWith("_") && !name.contains("="))

  /**
   * Whether the last component of a path begins with a wildcard. False if the component is only the end of a {…} list
   * that contains a slash.
   */
  def beginsWithWildcard(name: String): Boolean =
    (name.startsWith("*") || name.startsWith("?")) && name.count(_ == '{') == name.count(_ == '}')
}

/**
 * ALTER TABLE ... SET SERDE and SET SERDEPROPERTIES. The service checks that the table's files can be read with the
 * class and the settings.
 */
case class SetSerDeExec(table: CatalogExtTable, serde: Option[String], properties: Map[String, String])
  extends LeafV2CommandExec {

  override def output: Seq[Attribute] = Nil

  override protected def run(): Seq[InternalRow] = {
    val request = obj(
      "namespace" -> text(table.metadata.namespace), "name" -> text(table.metadata.name), "serde" -> text(serde),
      "properties" -> Json.map(properties))
    ServiceException.translating(table.client.call("tables/set_serde", request, limited = false))
    CachedPlans.refresh(session, table)
    Nil
  }
}
