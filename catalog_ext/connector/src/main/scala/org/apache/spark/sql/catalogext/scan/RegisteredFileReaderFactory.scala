package org.apache.spark.sql.catalogext.scan

import java.io.{FileNotFoundException, InterruptedIOException}
import java.net.{SocketException, UnknownHostException}
import java.nio.file.{AccessDeniedException, NoSuchFileException}
import java.time.Instant
import javax.net.ssl.SSLException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.{SparkThrowable, SPARK_VERSION}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.service.{CatalogExtRuntimeException, ConnectorErrors}
import org.apache.spark.sql.catalogext.write.StagingDataWriter
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration

/**
 * Reads a task's files with Spark's reader. If a file is missing or unreadable, the error names the file, its
 * partition, and the command that repairs the index.
 *
 * @param maker creates the file objects that `inner` reads
 * @param format the format of the files: the table's, or that of a descriptor
 * @param version the version of the registered table; None if the files were listed for this query only
 * @param pinned Hadoop's configuration if the query names the version, for [[requireUnchanged]]
 */
private[catalogext] class RegisteredFileReaderFactory(
    inner: PartitionReaderFactory,
    maker: FileMaker,
    catalogName: String,
    table: String,
    format: String,
    version: Option[Long],
    pinned: Option[Broadcast[SerializableConfiguration]] = None)
  extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = inner.supportColumnarReads(partition)

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    reading(partition)(inner.createReader)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    reading(partition)(inner.createColumnarReader)

  private def reading[T](partition: InputPartition)(read: FilePartition => PartitionReader[T]): PartitionReader[T] = {
    val files = maker.files(partition match {
      case keyed: KeyedFilePartition => keyed.files
      case share: FileShare => share
    })
    pinned.foreach(conf => files.files.distinctBy(_.urlEncodedPath).foreach(requireUnchanged(_, conf.value.value)))
    explaining(read(files), files)
  }

  /**
   * Refuses a file that was written again under its name, as Hive does at INSERT OVERWRITE: it has rows of a newer
   * version. At the newest version such a file is read, because the index follows later.
   */
  private def requireUnchanged(file: PartitionedFile, conf: Configuration): Unit = {
    val path = file.toPath
    val found = try Some(path.getFileSystem(conf).getFileStatus(path)) catch {
      // The reader reports it, or skips it if the query says so.
      case _: FileNotFoundException => None
    }
    // The index has the commit's time for an object that a write of this catalog uploaded. Its name is used once.
    val hasOwnTime = path.toUri.getScheme != "s3a" || !StagingDataWriter.isOwn(path.getName)
    found.filterNot { there =>
      if (hasOwnTime) Footer.isIndexed(there, file.fileSize, file.modificationTime) else there.getLen == file.fileSize
    }.foreach { status =>
      val shown = FileBeingRead(path.toString, partitionName(file).getOrElse(""))
      throw ConnectorErrors.runtime(ConnectorErrors.FilesLost,
        s"The file ${shown.shown}${shown.where} of table $catalogName.$table was written again since version " +
          s"${version.getOrElse("")}, which the query names: it had ${file.fileSize} bytes and the time " +
          s"${Instant.ofEpochMilli(file.modificationTime)}, and has ${status.getLen} bytes and the time " +
          s"${Instant.ofEpochMilli(status.getModificationTime)}. ${PinnedReads.Newer}", shown.parameters(table), None)
    }
  }

  private def explaining[T](reader: PartitionReader[T], partition: FilePartition): PartitionReader[T] =
    new PartitionReader[T] {
      override def next(): Boolean = try reader.next() catch {
        case e: Throwable if RegisteredFileReaderFactory.isMissingFile(e) => throw missing(partition, e)
        case e: Throwable if RegisteredFileReaderFactory.ownError(e).isDefined =>
          throw RegisteredFileReaderFactory.ownError(e).get
        case e: Throwable if RegisteredFileReaderFactory.isUnreadableFile(e) => throw unreadable(partition, e)
      }
      override def get(): T = reader.get()
      override def close(): Unit = reader.close()
    }

  private def missing(partition: FilePartition, cause: Throwable): Throwable = {
    val file = beingRead(partition)
    if (pinned.isDefined) ConnectorErrors.runtime(ConnectorErrors.FilesLost,
      s"The file ${file.shown}${file.where} of table $catalogName.$table belongs to version ${version.getOrElse("")} of the " +
        "table, which the query names, and is no longer on the store. An overwrite or a delete in place has removed it, a " +
        "change of its partition has moved it, or another program: only tables with `overwrite-mode` = relocate keep " +
        s"replaced files, until vacuum. ${PinnedReads.Newer}", file.parameters(table), Some(cause))
    else missingNow(file, cause)
  }

  private def missingNow(file: FileBeingRead, cause: Throwable): Throwable = {
    val (owner, then, remedy) = version match {
      case Some(number) => (s"table $catalogName.$table", s"belongs to version $number of the table",
        "If the table has been overwritten since that version, it has moved on: run the query again, which reads the " +
          "newest one. If a Hive engine has dropped the table, it is gone here as soon as the metastore is followed to " +
          s"that point. Otherwise the file was deleted; bring the index in sync: ${repair("")}.")
      case None => (s"$catalogName.$table", "was there when it was listed", "Run the query again.")
    }
    ConnectorErrors.runtime(ConnectorErrors.FileMissing,
      s"The file ${file.shown}${file.where} of $owner $then, and is no longer on the store. " +
        s"$remedy To read on without missing files: " +
        s"SET `spark.sql.catalog.$catalogName.${ReadOptions.MissingFiles}` = skip.",
      file.parameters(table), Some(cause))
  }

  private def unreadable(partition: FilePartition, cause: Throwable): Throwable = {
    import RegisteredFileReaderFactory._
    val file = beingRead(partition)
    val owner = if (version.isDefined) s"table $catalogName.$table" else s"$catalogName.$table"
    val about = s"The file ${file.shown}${file.where} of $owner cannot be read"
    val because = reason(cause)
    if (isDenied(cause))
      ConnectorErrors.runtime(ConnectorErrors.StorageAccessDenied,
        s"$about: $because. Let the session's user read it.", file.parameters(table), Some(cause))
    else if (isOfAnotherType(cause))
      ConnectorErrors.runtime(ConnectorErrors.FileUnreadable,
        s"$about: a column has another type in it than in the table. $because. ${ofNanoseconds(because)}Give the column the " +
          "file's type, or write the file again with the table's.",
        file.parameters(table), Some(cause))
    else if (isOfNewerSpark(cause))
      ConnectorErrors.runtime(ConnectorErrors.NewerSparkNeeded,
        s"$about: it is whole, and has a VARIANT as Spark 4.1 and newer write it, which Spark " +
          s"$SPARK_VERSION cannot read. Read it with one of those, or have that write the partition again " +
          "with spark.sql.parquet.variant.annotateLogicalType.enabled and spark.sql.variant.writeShredding.enabled set to false.",
        file.parameters(table), Some(cause))
    else ConnectorErrors.runtime(ConnectorErrors.FileUnreadable,
      s"$about as $format: $because. ${remedy}To read on without such files: " +
        "SET spark.sql.files.ignoreCorruptFiles = true.",
      file.parameters(table), Some(cause))
  }

  private def remedy: String = if (version.isEmpty) "Put a whole file in its place, or delete it. " else
    s"Put a whole file in its place or delete it, then bring the index in sync: ${repair(", verify => 'all'")}, which " +
      "names all other files that Spark cannot read, registered ones too. "

  private def repair(more: String): String =
    s"CALL $catalogName.system.repair_partitions(table => '$table', mode => 'sync'$more)"

  private def beingRead(partition: FilePartition): FileBeingRead = {
    val path = InputFileBlockHolder.getInputFilePath.toString
    val file = partition.files.find(_.urlEncodedPath == path)
    FileBeingRead(file.fold(path)(_.toPath.toString), file.flatMap(partitionName).getOrElse(""))
  }

  private def partitionName(file: PartitionedFile): Option[String] =
    file.otherConstantMetadataColumnValues.get(PlannedFiles.PartitionNameKey).map(_.toString)
}

private[catalogext] object PinnedReads {
  val Newer = "Read a newer version; the metadata table `history` lists them."

  /** Hadoop's configuration for the tasks of a query that names a version of the table; None for other queries. */
  def conf(
      spark: SparkSession, table: TableMetadata, options: Map[String, String]): Option[Broadcast[SerializableConfiguration]] =
    Option.when(table.pinned) {
      spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConfWithOptions(options)))
    }
}

/** The file at which a task failed; `partition` is empty for an unpartitioned table. */
private case class FileBeingRead(shown: String, partition: String) {
  def where: String = if (partition.isEmpty) "" else s" of partition '$partition'"

  def parameters(table: String): Map[String, String] =
    Map("file" -> shown, "partition" -> partition, "table" -> table)
}

private object RegisteredFileReaderFactory {
  private val FailedRead = "FAILED_READ_FILE"
  private val StoresClients =
    Seq("org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.", "org.apache.hadoop.ipc.", "org.apache.hadoop.hdfs.")

  def isMissingFile(e: Throwable): Boolean = !isDenied(e) && causes(e).exists {
    // NoSuchFileException is raised for a local file that is removed while it is being opened.
    case _: FileNotFoundException | _: NoSuchFileException => true
    case _ => false
  }

  /** The error of a reader of this connector, which already names the file and the remedy; Spark wraps it. */
  def ownError(e: Throwable): Option[Throwable] = causes(e).collectFirst { case own: CatalogExtRuntimeException => own }

  /** Whether Spark's reader failed because of the file's content, and not because of the JVM or the store. */
  def isUnreadableFile(e: Throwable): Boolean =
    conditions(e).exists(_.startsWith(FailedRead)) && !causes(e).exists(cause => isOfTheStore(cause) || isOfTheJvm(cause))

  private def isOfTheJvm(cause: Throwable): Boolean = cause.isInstanceOf[VirtualMachineError]

  /**
   * Whether the store has failed to answer. Then the file may be intact, and the error must not suggest to delete it.
   */
  private def isOfTheStore(cause: Throwable): Boolean = cause match {
    case _: InterruptedIOException | _: SocketException | _: UnknownHostException | _: SSLException => true
    case other => StoresClients.exists(other.getClass.getName.startsWith)
  }

  def isDenied(e: Throwable): Boolean = causes(e).exists {
    case _: AccessControlException | _: AccessDeniedException => true
    // This is Java's message for a local file that may not be read.
    case local: FileNotFoundException => Option(local.getMessage).exists(_.endsWith("(Permission denied)"))
    case _ => false
  }

  /**
   * Whether a reader failed at a VARIANT of a newer Spark: at an unknown logical type in a Parquet footer, or at a
   * shredded VARIANT.
   */
  def isOfNewerSpark(e: Throwable): Boolean = SPARK_VERSION.startsWith("4.0.") && (
    conditions(e).contains("INVALID_VARIANT_FROM_PARQUET.WRONG_NUM_FIELDS") || causes(e).exists {
      case unknown: NullPointerException => unknown.getStackTrace.headOption.exists(_.getMethodName == "getLogicalTypeAnnotation")
      case _ => false
    })

  /**
   * The remedy for a file with timestamps in nanoseconds, which pandas writes by default: Spark has no such type, and
   * its message calls them INT64. Empty for other errors.
   */
  def ofNanoseconds(because: String): String =
    if (because.contains("physicalType: INT64") && because.contains("logicalType: timestamp"))
      "If the file has nanoseconds, which Spark cannot read, write it with coerce_timestamps='us' (pandas, pyarrow). "
    else ""

  def isOfAnotherType(e: Throwable): Boolean = conditions(e).contains(s"$FailedRead.PARQUET_COLUMN_DATA_TYPE_MISMATCH")

  /** The error message of the format's reader, which Spark wraps in general messages. */
  def reason(e: Throwable): String = {
    val (own, below) = causes(e).toSeq.partition {
      case said: SparkThrowable => Option(said.getCondition).exists(_.startsWith(FailedRead))
      case _ => false
    }
    val said = below.lastOption.orElse(own.lastOption).getOrElse(e)
    Option(said.getMessage).getOrElse(said.getClass.getName).trim.stripSuffix(".")
  }

  private def conditions(e: Throwable): Seq[String] =
    causes(e).collect { case said: SparkThrowable => said.getCondition }.filter(_ != null).toSeq

  // Limit the length, because a chain of causes can be a cycle.
  private def causes(e: Throwable): Iterator[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(32)
}
