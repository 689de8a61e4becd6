package org.apache.spark.sql.catalogext.catalog

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalogext.write.{CatalogExtWrite, CatalogExtWriteBuilder, SparkWriteKind, WriteMarks,
  WriteSettings, WriteTarget, WriteTransaction}
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog.{StagedTable, SupportsWrite, TableCapability}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table that CREATE TABLE ... AS, or REPLACE TABLE with and without AS, is about to make.
 *
 * The write of the query's rows is what makes it: its commit creates or replaces the table in one step, so that there
 * is nothing left to commit or to take back afterwards. Without a query, `commitStagedChanges` does it.
 *
 * @param schema the columns in the order of the statement, which is that of the query's rows
 * @param definition the fields of `tables/create`
 */
class StagedCatalogExtTable(
    catalogName: String,
    client: ServiceClient,
    metadata: TableMetadata,
    kind: SparkWriteKind,
    override val schema: StructType,
    definition: ObjectNode)
  extends StagedTable with SupportsWrite {
  import StagedCatalogExtTable._

  private var written = false

  override def name(): String = s"$catalogName.${metadata.qualifiedName}"
  override def partitioning(): Array[Transform] =
    metadata.partitionColumns.fieldNames.map(key => Expressions.identity(quoteIdentifier(key)))
  override def properties(): util.Map[String, String] =
    (LineageNames.of(catalogName, metadata) ++ metadata.properties).asJava
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_WRITE, TableCapability.OVERWRITE_BY_FILTER, TableCapability.TRUNCATE)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    written = true
    val target = WriteTarget(client, catalogName, metadata, kind, definition = Some(withoutNull(definition, schema)))
    new CatalogExtWriteBuilder(SparkSession.active, target, WriteMarks.without(info))
  }

  override def commitStagedChanges(): Unit = if (!written) {
    val target = WriteTarget(
      client, catalogName, metadata, kind, operation = Some("REPLACE TABLE"), definition = Some(definition))
    val settings = new WriteSettings(
      client, catalogName, metadata, CaseInsensitiveStringMap.empty(), SparkSession.active.sessionState.conf)
    WriteTransaction.begin(target, settings, CatalogExtWrite.owner(SparkSession.active), None)
      .foreach(_.commit())
  }

  /** A failed write has undone itself, and without one nothing was begun. */
  override def abortStagedChanges(): Unit = ()
}

private object StagedCatalogExtTable {
  /**
   * A definition whose keys are NOT NULL where the schema says so: a query's columns cannot be declared that, and where
   * the strategy wants it of the keys, the query's rows are checked.
   */
  def withoutNull(definition: ObjectNode, schema: StructType): ObjectNode = {
    val copy = definition.deepCopy()
    copy.items("partition_columns").foreach { key =>
      if (!schema(key.string("name")).nullable) key.asInstanceOf[ObjectNode].put("nullable", false)
    }
    copy
  }
}
