package org.apache.spark.sql.catalogext.scan

import java.io.FileNotFoundException

import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * Says which registered file is gone, of which partition, and how to bring the index in step with the store.
 *
 * @param version that of the registered table which is read; None of what was listed for the query alone
 */
class RegisteredFileReaderFactory(
    inner: PartitionReaderFactory,
    catalogName: String,
    table: String,
    version: Option[Long])
  extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = inner.supportColumnarReads(partition)

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    explaining(inner.createReader(partition), partition)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    explaining(inner.createColumnarReader(partition), partition)

  private def explaining[T](reader: PartitionReader[T], partition: InputPartition): PartitionReader[T] =
    new PartitionReader[T] {
      override def next(): Boolean = try reader.next() catch {
        case e: Throwable if RegisteredFileReaderFactory.isMissingFile(e) => throw missing(partition, e)
      }
      override def get(): T = reader.get()
      override def close(): Unit = reader.close()
    }

  private def missing(partition: InputPartition, cause: Throwable): Throwable = {
    val path = InputFileBlockHolder.getInputFilePath.toString
    val files = partition.asInstanceOf[FilePartition].files
    val file = files.find(_.urlEncodedPath == path)
    val shown = file.fold(path)(_.toPath.toString)
    val name = file.flatMap(partitionName).getOrElse("")
    val where = if (name.isEmpty) "" else s" of partition '$name'"
    val repair = s"CALL $catalogName.system.repair_partitions(table => '$table', mode => 'sync')"
    val (owner, then, remedy) = version match {
      case Some(number) => (s"table $catalogName.$table", s"belongs to version $number of the table",
        "If the table has been overwritten since that version, it has moved on: run the query again, which reads the " +
          s"newest one. Otherwise somebody has deleted the file; bring the index in step: $repair.")
      case None => (s"$catalogName.$table", "was there when it was listed", "Run the query again.")
    }
    ConnectorErrors.runtime(ConnectorErrors.FileMissing,
      s"The file $shown$where of $owner $then, and is no longer on the store. " +
        s"$remedy To read on without missing files: " +
        s"SET `spark.sql.catalog.$catalogName.${ReadOptions.MissingFiles}` = skip.",
      Map("file" -> shown, "partition" -> name, "table" -> table), Some(cause))
  }

  private def partitionName(file: PartitionedFile): Option[String] =
    file.otherConstantMetadataColumnValues.get(PlannedFiles.PartitionNameKey).map(_.toString)
}

private object RegisteredFileReaderFactory {
  def isMissingFile(e: Throwable): Boolean =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).exists(_.isInstanceOf[FileNotFoundException])
}
