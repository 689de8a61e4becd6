package org.apache.spark.sql.catalogext.stream

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.write.WriteTarget
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.write.{DataWriter, LogicalWriteInfo, WriterCommitMessage}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The rows of a streaming query against the columns of the table: Spark compares them for batch writes only.
 *
 * @param info what the query says, with the table's types
 * @param conversion what makes the query's rows the table's, where they differ
 */
class StreamingRows private (val info: LogicalWriteInfo, val conversion: Option[RowConversion])

object StreamingRows {
  /**
   * Columns are found by name. Raises an analysis error for columns that the table has not, or of a type that does not
   * fit without loss; missing columns are the writer's error.
   */
  def apply(target: WriteTarget, info: LogicalWriteInfo): StreamingRows = {
    val table = CharVarcharUtils.replaceCharVarcharWithStringInSchema(
      StructType(target.metadata.partitionColumns ++ target.metadata.columns))
    val columns = info.schema().map(field => fitted(target, table, field)).toArray
    val fits = columns.zip(info.schema()).forall { case (to, from) =>
      to.dataType == from.dataType && (to.nullable || !from.nullable)
    }
    new StreamingRows(
      new FittedWriteInfo(info, StructType(columns)),
      Option.when(!fits)(RowConversion(info.schema(), StructType(columns), SQLConf.get.sessionLocalTimeZone)))
  }

  private def fitted(target: WriteTarget, table: StructType, field: StructField): StructField = {
    // A data column wins over a key of its name.
    val column = table.findLast(column => SQLConf.get.resolver(column.name, field.name)).getOrElse(
      throw mismatch(target, field, s"which the table has not; it has ${table.fieldNames.mkString(", ")}. Select the " +
        "columns of the table before writeStream."))
    if (!Cast.canUpCast(field.dataType, column.dataType) && field.dataType.asNullable != column.dataType.asNullable)
      throw mismatch(target, field, s"which does not fit ${column.dataType.sql} without loss. Cast it before " +
        "writeStream.")
    field.copy(dataType = column.dataType, nullable = column.nullable)
  }

  private def mismatch(target: WriteTarget, field: StructField, what: String): Throwable =
    ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"The stream to table ${target.tableName} has the column '${field.name}' of type ${field.dataType.sql}, $what",
      Map("table" -> target.tableName, "column" -> field.name))
}

private class FittedWriteInfo(inner: LogicalWriteInfo, fitted: StructType) extends LogicalWriteInfo {
  override def options(): CaseInsensitiveStringMap = inner.options()
  override def queryId(): String = inner.queryId()
  override def schema(): StructType = fitted
}

/** Casts rows from one schema to another of the same columns, on the executors. */
case class RowConversion(from: StructType, to: StructType, zone: String) {
  def projection: UnsafeProjection = UnsafeProjection.create(
    from.zip(to).zipWithIndex.map { case ((source, target), i) => converted(i, source, target) })

  private def converted(i: Int, source: StructField, target: StructField): Expression = {
    val value = BoundReference(i, source.dataType, source.nullable)
    val cast = if (source.dataType == target.dataType) value else Cast(value, target.dataType, Some(zone))
    if (source.nullable && !target.nullable) AssertNotNull(cast, Seq(s"column '${target.name}'")) else cast
  }
}

private class ConvertingWriter(inner: DataWriter[InternalRow], conversion: RowConversion)
  extends DataWriter[InternalRow] {

  private val projection = conversion.projection

  override def write(row: InternalRow): Unit = inner.write(projection(row))
  override def commit(): WriterCommitMessage = inner.commit()
  override def abort(): Unit = inner.abort()
  override def close(): Unit = inner.close()
  override def currentMetricsValues(): Array[CustomTaskMetric] = inner.currentMetricsValues()
}
