package org.apache.spark.sql.catalogext.stream

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.release.Streaming
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceException}
import org.apache.spark.sql.catalogext.write.{ApplicationBatch, CatalogExtWrite, DiscardingWriterFactory,
  RunningWrite, WriteSettings, WriteTarget}
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, BindReferences, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.StoreAssignmentPolicy
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * Writes the epochs of a streaming query. Each epoch is one transaction, committed at most once under the query's id
 * and the epoch's number, so a restarted query writes no epoch twice.
 *
 * Spark creates an instance for every epoch, with the table as of the query's start.
 */
class CatalogExtStreamingWrite(
    spark: SparkSession,
    target: WriteTarget,
    settings: WriteSettings,
    info: LogicalWriteInfo)
  extends StreamingWrite with Logging {

  private val queryId = info.queryId()
  private val rows = StreamingRows(target, info)
  private var running: Option[RunningWrite] = None

  StreamingQueries.checkWatermark(spark, queryId, target, settings)
  StreamingQueries.watch(spark, queryId, target, settings)

  override def createStreamingWriterFactory(physical: PhysicalWriteInfo): StreamingDataWriterFactory = {
    // Load the table again, at its present version: other writers may have committed since the query started, and only
    // their later commits can be conflicts.
    val now = target.copy(metadata = reload(), operation = Some("STREAMING"))
    running = new CatalogExtWrite(spark, now, settings, rows.info).start(Some(ApplicationBatch(queryId, epoch)))
    if (running.isEmpty) logInfo(s"Epoch $epoch of query $queryId is committed to ${target.tableName} already: " +
      "nothing is written")
    new EpochWriterFactory(
      running.fold[DataWriterFactory](new DiscardingWriterFactory)(_.writerFactory), rows.conversion)
  }

  override def commit(epochId: Long, messages: Array[WriterCommitMessage]): Unit =
    running.foreach(_.commit(messages.toSeq, Some(StreamingQueries.watermarkMillis(spark, queryId))))

  override def abort(epochId: Long, messages: Array[WriterCommitMessage]): Unit =
    running.foreach(_.abort(s"epoch $epochId of query $queryId failed"))

  // The epoch's number. Spark passes it only to the commit, but the query's thread has it in a local property.
  private def epoch: Long = Option(spark.sparkContext.getLocalProperty(Streaming.BatchId)).getOrElse(
    throw ConnectorErrors.notSupported(
      s"Table ${target.tableName} is written in micro-batches: use another trigger than a continuous one.")).toLong

  private def reload(): TableMetadata = {
    val request = obj("namespace" -> text(target.metadata.namespace), "name" -> text(target.metadata.name))
    val now = TableMetadata.fromJson(ServiceException.translating(target.client.call("tables/load", request)))
    val before = target.metadata
    val same = now.tableId == before.tableId && shape(now.columns) == shape(before.columns) &&
      shape(now.partitionColumns) == shape(before.partitionColumns)
    if (!same) throw ConnectorErrors.runtime(ConnectorErrors.StreamChanged,
      s"Table ${target.tableName} has other columns than when the query started, or is another table. Restart the " +
        "query.", Map("table" -> target.tableName))
    now
  }

  // Compare names, types and nullability, also of nested fields. Comments and defaults may change while the query runs,
  // because they do not change the files that an epoch writes.
  private def shape(dataType: DataType): DataType = dataType match {
    case struct: StructType =>
      StructType(struct.map(field => StructField(field.name, shape(field.dataType), field.nullable)))
    case array: ArrayType => ArrayType(shape(array.elementType), array.containsNull)
    case map: MapType => MapType(shape(map.keyType), shape(map.valueType), map.valueContainsNull)
    case other => other
  }
}

private class EpochWriterFactory(inner: DataWriterFactory, conversion: Option[RowConversion])
  extends StreamingDataWriterFactory {

  override def createWriter(partitionId: Int, taskId: Long, epochId: Long): DataWriter[InternalRow] = {
    val writer = inner.createWriter(partitionId, taskId)
    conversion.fold(writer)(new ConvertingWriter(writer, _))
  }
}

/**
 * Maps the rows of a streaming query to the table's columns; Spark does that for batch writes only.
 *
 * @param info the write's description, with the table's types
 * @param conversion converts the query's rows to the table's, if they differ
 */
class StreamingRows private (val info: LogicalWriteInfo, val conversion: Option[RowConversion])

object StreamingRows {
  /**
   * Matches columns and nested fields by name, with Spark's rules for batch writes; lengths of CHAR and VARCHAR are
   * checked too. Raises an analysis error for columns that the table lacks, and for types that do not fit without loss.
   * The writer reports missing columns.
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

  /** The query's column, converted to the type of the table's column with its name. */
  private def fitted(target: WriteTarget, table: StructType, attribute: Attribute): Expression = {
    val resolver = SQLConf.get.resolver
    // Look for a data column first: it wins over a key with the same name.
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

  /** The session's conf with Spark's strict store assignment, because no user sees the row at which a stream fails. */
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

/** Computes the table's values from a row of the query, on executors; `values` are bound to that row. */
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
