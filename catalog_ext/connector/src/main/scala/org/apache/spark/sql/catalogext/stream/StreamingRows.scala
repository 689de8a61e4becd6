package org.apache.spark.sql.catalogext.stream

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.write.WriteTarget
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, BindReferences, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.write.{DataWriter, LogicalWriteInfo, WriterCommitMessage}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.StoreAssignmentPolicy
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
   * Columns, and the fields within them, are found by name, by Spark's own rules of batch writes: lengths of CHAR and
   * VARCHAR are checked too. Raises an analysis error for columns that the table has not, or of a type that does not
   * fit without loss; missing columns are the writer's error.
   */
  def apply(target: WriteTarget, info: LogicalWriteInfo): StreamingRows = {
    val table = CharVarcharUtils.replaceCharVarcharWithStringInSchema(target.metadata.writeSchema)
    val input = DataTypeUtils.toAttributes(info.schema())
    val values = input.map(attribute => fitted(target, table, attribute))
    val columns = input.zip(values).map { case (attribute, value) =>
      StructField(attribute.name, value.dataType, value.nullable)
    }
    new StreamingRows(
      new FittedWriteInfo(info, StructType(columns)),
      Option.when(values != input)(RowConversion(BindReferences.bindReferences(values, input))))
  }

  /** The value of the table's column that one of the query's columns is for. */
  private def fitted(target: WriteTarget, table: StructType, attribute: Attribute): Expression = {
    val resolver = SQLConf.get.resolver
    // A data column wins over a key of its name.
    val column = table.find(column => resolver(column.name, attribute.name)).getOrElse(
      throw mismatch(target, attribute, s"which the table has not; it has ${table.fieldNames.mkString(", ")}. Select the " +
        "columns of the table before writeStream."))
    val expected = DataTypeUtils.toAttribute(column)
    val resolved = try TableOutputResolver.resolveOutputColumns(
      target.tableName, Seq(expected), LocalRelation(attribute), byName = true, withoutLoss) catch {
      case e: AnalysisException => throw mismatch(target, attribute,
        s"which does not fit ${column.dataType.sql} without loss. Cast it before writeStream. ${e.getMessage}", Some(e))
    }
    resolved match {
      case Project(Seq(Alias(value, _)), _) => value
      case Project(Seq(value), _) if value.semanticEquals(attribute) => attribute
      case Project(Seq(value), _) => value
      case _ => attribute
    }
  }

  /** The session's conf with Spark's strict policy: no user sees the row at which a stream fails. */
  private def withoutLoss: SQLConf = {
    val conf = SQLConf.get.clone()
    conf.setConfString(SQLConf.STORE_ASSIGNMENT_POLICY.key, StoreAssignmentPolicy.STRICT.toString)
    conf
  }

  private def mismatch(target: WriteTarget, column: Attribute, what: String, cause: Option[Throwable] = None) =
    ConnectorErrors.analysis(ConnectorErrors.InvalidInput,
      s"The stream to table ${target.tableName} has the column '${column.name}' of type ${column.dataType.sql}, $what",
      Map("table" -> target.tableName, "column" -> column.name), cause)
}

private class FittedWriteInfo(inner: LogicalWriteInfo, fitted: StructType) extends LogicalWriteInfo {
  override def options(): CaseInsensitiveStringMap = inner.options()
  override def queryId(): String = inner.queryId()
  override def schema(): StructType = fitted
}

/** Makes the table's values of a query's row, on the executors; `values` are bound to it. */
case class RowConversion(values: Seq[Expression]) {
  def projection: UnsafeProjection = UnsafeProjection.create(values)
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
