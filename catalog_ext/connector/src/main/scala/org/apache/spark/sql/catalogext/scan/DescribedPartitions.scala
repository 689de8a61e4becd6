package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{PartitionDescriptor, TableMetadata}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, EvalMode, Expression, Literal, StringTrimRight,
  Substring, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, ResolveDefaultColumns}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex
import org.apache.spark.sql.execution.datasources.v2.{FilePartitionReaderFactory, FileScan, FileScanBuilder}
import org.apache.spark.sql.execution.datasources.v2.csv.CSVScanBuilder
import org.apache.spark.sql.execution.datasources.v2.json.JsonScanBuilder
import org.apache.spark.sql.execution.datasources.v2.orc.OrcScanBuilder
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder
import org.apache.spark.sql.execution.datasources.v2.text.TextScanBuilder
import org.apache.spark.sql.types.{CharType, DataType, StructField, StructType, VarcharType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The partitions of a scan that share one descriptor (format, options and columns other than the table's), and the
 * projection of their rows to the table's columns.
 */
private[catalogext] class DescribedScan(
    val descriptor: PartitionDescriptor,
    val inner: FileScan,
    val index: PlannedFileIndex,
    val rows: Seq[Expression])

private[catalogext] object DescribedScan {
  /**
   * A scan of the descriptor's partitions, whose rows have the columns of the table's scan `own`.
   *
   * No filter on data columns is pushed down, because the filters have the table's types. Spark evaluates all of them
   * after the scan.
   *
   * @param columns the table's data columns
   * @param index the files with this descriptor
   */
  def of(
      spark: SparkSession,
      descriptor: PartitionDescriptor,
      own: FileScan,
      columns: StructType,
      index: PlannedFileIndex,
      options: CaseInsensitiveStringMap): DescribedScan = {
    val resolver = spark.sessionState.conf.resolver
    val fileColumns = CharVarcharUtils.replaceCharVarcharWithStringInSchema(descriptor.columns)
    val builder = SparkScans.of(spark, index.table, descriptor.format, index,
      StructType(fileColumns ++ index.partitionSchema), fileColumns, options)
    val wanted = own.readDataSchema.flatMap(field => fileColumns.find(f => resolver(f.name, field.name)))
    builder.pruneColumns(StructType(wanted ++ own.readPartitionSchema))
    val inner = builder.build().asInstanceOf[FileScan]
    val read = inner.readSchema()
    def at(name: String): Option[BoundReference] =
      Some(read.fields.indexWhere(field => resolver(field.name, name))).filter(_ >= 0)
        .map(i => BoundReference(i, read(i).dataType, nullable = true))
    def typeIn(of: StructType, field: StructField): Option[DataType] =
      of.find(f => resolver(f.name, field.name)).map(f => CharVarcharUtils.getRawType(f.metadata).getOrElse(f.dataType))
    val zone = Some(spark.sessionState.conf.sessionLocalTimeZone)
    val rows = own.readDataSchema.map { field =>
      at(field.name).fold[Expression](missing(field, columns)) { found =>
        val value = cut(found, typeIn(descriptor.columns, field), typeIn(index.table.columns, field))
        if (value.dataType.sameType(field.dataType)) value else Cast(value, field.dataType, zone, EvalMode.LEGACY)
      }
    } ++ own.readPartitionSchema.map(field => at(field.name).get)
    new DescribedScan(descriptor, inner, index, rows)
  }

  /** Converts a value to the table's CHAR or VARCHAR as Hive does: excess characters and padding blanks are removed. */
  private def cut(value: Expression, own: Option[DataType], tables: Option[DataType]): Expression = own match {
    case _ if own == tables => value
    case Some(kind: CharType) => StringTrimRight(Substring(value, Literal(1), Literal(kind.length)))
    case Some(kind: VarcharType) => Substring(value, Literal(1), Literal(kind.length))
    case _ => value
  }

  /** The value of a column that the files lack: its default or NULL. */
  private def missing(field: StructField, columns: StructType): Expression =
    Literal(
      columns.find(_.name == field.name)
        .map(column => ResolveDefaultColumns.getExistenceDefaultValues(StructType(Seq(column))).head).orNull,
      field.dataType)
}

/** Creates Spark's own scan for a format. */
private[catalogext] object SparkScans {
  def of(
      spark: SparkSession,
      table: TableMetadata,
      format: String,
      index: PartitioningAwareFileIndex,
      schema: StructType,
      dataSchema: StructType,
      options: CaseInsensitiveStringMap): FileScanBuilder = format match {
    case "parquet" => ParquetScanBuilder(spark, index, schema, dataSchema, options)
    case "orc" => OrcScanBuilder(spark, index, schema, dataSchema, options)
    case "csv" => CSVScanBuilder(spark, index, schema, dataSchema, options)
    case "json" => JsonScanBuilder(spark, index, schema, dataSchema, options)
    case "text" => TextScanBuilder(spark, index, schema, dataSchema, options)
    case other => throw ConnectorErrors.analysis(ConnectorErrors.UnsupportedFormat,
      s"Table ${table.qualifiedName} has the format '$other'; this release reads parquet, orc, csv, json and text.",
      Map("table" -> table.qualifiedName, "format" -> other))
  }
}

/** Files of a task that are read with a descriptor of their own; `number` is the descriptor's position in the scan. */
private[catalogext] case class DescribedFilePartition(number: Int, files: InputPartition) extends InputPartition {
  override def preferredLocations(): Array[String] = files.preferredLocations()
}

/**
 * Gives each task the reader of its files: the table's, or that of a descriptor. All return rows, because Spark
 * requires either columnar batches or rows from all tasks of a scan.
 *
 * @param described for each descriptor its reader factory, and the projection of its rows
 */
private[catalogext] class DescribedReaderFactory(
    own: PartitionReaderFactory,
    described: Array[(PartitionReaderFactory, Seq[Expression])])
  extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = false

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case DescribedFilePartition(number, files) =>
      val (factory, rows) = described(number)
      val projection = UnsafeProjection.create(rows)
      new DelegatingReader[InternalRow](factory.createReader(files))(projection(_))
    case other => own.createReader(other)
  }

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    throw new UnsupportedOperationException("a scan of several formats gives rows")
}
