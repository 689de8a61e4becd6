package org.apache.spark.sql.catalogext.scan

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalogext.catalog.{TableMetadata, VirtualColumn}
import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.expressions.{Attribute, EqualTo, Expression, GenericInternalRow, Literal}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Hidden columns for the origin of a row, with the names of Trino's Hive connector. Spark's readers treat them as
 * partition columns, so a filter on one skips files before they are read.
 */
object FileColumns {
  val Partition = "$partition"

  private val All: Seq[(StructField, FileFacts => Any)] = Seq(
    StructField("$path", StringType) -> (file => UTF8String.fromString(file.path.toString)),
    StructField(Partition, StringType) -> (file => UTF8String.fromString(file.partition)),
    StructField("$file_size", LongType) -> (_.size),
    StructField("$file_modified_time", TimestampType) -> (_.modifiedMs * 1000))

  private case class FileFacts(partition: String, path: Path, size: Long, modifiedMs: Long)

  def isOne(name: String): Boolean = All.exists(_._1.name == name)

  /**
   * The hidden file columns (`$path` and others) that a query can name: those whose names no column of the table has.
   */
  def visible(table: TableMetadata, resolver: Resolver): StructType = {
    val taken = table.columns.fieldNames ++ table.partitionColumns.fieldNames
    StructType(All.map(_._1).filterNot(column => taken.exists(resolver(_, column.name))))
  }

  def metadataColumns(table: TableMetadata, resolver: Resolver): Seq[VirtualColumn] =
    visible(table, resolver).map(column => VirtualColumn(column.name, column.dataType, null))

  /**
   * The values of the hidden columns `columns` for a file. In a row they follow the values of the partition columns.
   */
  def values(
      columns: StructType,
      keys: GenericInternalRow,
      partition: String,
      path: Path,
      size: Long,
      modifiedMs: Long): GenericInternalRow = {
    val file = FileFacts(partition, path, size, modifiedMs)
    val own = columns.map(column => All.find(_._1.name == column.name).get._2(file))
    new GenericInternalRow(keys.values ++ own)
  }

  def mentioned(columns: StructType, filter: Expression): Boolean =
    filter.references.exists(a => columns.fieldNames.contains(a.name))

  /**
   * Filters on partition columns that follow from filters on hidden columns, such as `$partition = 'ds=…'`. The service
   * can evaluate them.
   */
  def ofKeys(keys: StructType, zone: String, filters: Seq[Expression]): Seq[Expression] = filters.flatMap {
    case Tolerated(filter) => ofKeys(keys, zone, Seq(filter))
    case EqualTo(a: Attribute, Literal(name: UTF8String, _)) if a.name == Partition =>
      PartitionFilter.ofName(keys, zone, name.toString)
    case _ => Nil
  }
}
