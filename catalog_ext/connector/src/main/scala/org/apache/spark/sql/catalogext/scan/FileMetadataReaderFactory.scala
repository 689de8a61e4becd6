package org.apache.spark.sql.catalogext.scan

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.release.FileConstants
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, Literal}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/** Appends the `_metadata` struct, whose fields are constants of the file, to the rows of Spark's reader. */
class FileMetadataReaderFactory(
    inner: FilePartitionReaderFactory,
    fields: StructType,
    readOptions: CaseInsensitiveStringMap)
  extends FilePartitionReaderFactory {

  override protected val options: FileSourceOptions =
    new FileSourceOptions(readOptions.asCaseSensitiveMap().asScala.toMap)

  override def supportColumnarReads(partition: InputPartition): Boolean =
    inner.supportColumnarReads(partition)

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = {
    val constants = InternalRow(new GenericInternalRow(literals(file).map(_.value)))
    val joined = new JoinedRow()
    new DelegatingReader(inner.buildReader(file))(row => joined(row, constants))
  }

  override def buildColumnarReader(file: PartitionedFile): PartitionReader[ColumnarBatch] = {
    val constants = literals(file)
    new DelegatingReader(inner.buildColumnarReader(file))({ batch =>
      val vectors: Array[ColumnVector] = Array.tabulate(batch.numCols())(batch.column)
      new ColumnarBatch(vectors :+ struct(constants, batch.numRows()), batch.numRows())
    })
  }

  private def literals(file: PartitionedFile): Array[Literal] = fields.fields.map(FileConstants.of(_, file))

  private def struct(constants: Array[Literal], rows: Int): ConstantColumnVector = {
    val vector = new ConstantColumnVector(rows, fields)
    constants.zipWithIndex.foreach { case (constant, i) =>
      val child = new ConstantColumnVector(rows, constant.dataType)
      constant.value match {
        case null => child.setNull()
        case text: UTF8String => child.setUtf8String(text)
        case number: Long => child.setLong(number)
      }
      vector.setChild(i, child)
    }
    vector
  }
}

/** Forwards all calls, with `change` applied to every value that is read. */
private[scan] class DelegatingReader[T](inner: PartitionReader[T])(change: T => T) extends PartitionReader[T] {
  override def next(): Boolean = inner.next()
  override def get(): T = change(inner.get())
  override def close(): Unit = inner.close()
}
