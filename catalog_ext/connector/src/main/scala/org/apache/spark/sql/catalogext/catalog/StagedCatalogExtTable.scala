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
 * The table that CREATE TABLE ... AS, or REPLACE TABLE with and without AS, is about to create.
 *
 * The write of the query's rows creates it: its commit creates or replaces the table in one transaction, so nothing
 * remains to be committed or undone afterwards. Without a query, `commitStagedChanges` replaces it.
 *
 * @param schema the columns in the statement's order, which is the order of the query's rows
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
  /** The transaction of `commitStagedChanges`. A query's write aborts its own transaction. */
  private var begun: Option[WriteTransaction] = None

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
    begun = WriteTransaction.begin(target, settings, CatalogExtWrite.owner(SparkSession.active), None)
    begun.foreach(_.commit())
  }

  // Spark calls this after a failed commit. A commit that did not reach the service leaves the transaction alive: its
  // heartbeats would renew the lease until the driver ends, and recovery would never undo it.
  override def abortStagedChanges(): Unit = begun.foreach(_.abort("the commit failed"))
}

private object StagedCatalogExtTable {
  /**
   * The definition, with a NOT NULL key for each key that is NOT NULL in the schema. The columns of a query cannot be
   * declared NOT NULL; if the partition strategy requires it, the rows are checked instead.
   */
  def withoutNull(definition: ObjectNode, schema: StructType): ObjectNode = {
    val copy = definition.deepCopy()
    copy.items("partition_columns").foreach { key =>
      if (!schema(key.string("name")).nullable) key.asInstanceOf[ObjectNode].put("nullable", false)
    }
    copy
  }
}
