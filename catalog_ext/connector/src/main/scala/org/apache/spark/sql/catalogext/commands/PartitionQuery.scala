package org.apache.spark.sql.catalogext.commands

import java.util

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.release.FilteredBuilder
import org.apache.spark.sql.catalogext.scan.PartitionFilter
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, GenericInternalRow}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, GlobalLimit, LocalLimit, LogicalPlan, Project, Sort}
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder, SupportsPushDownLimit}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * SHOW PARTITIONS with WHERE, ORDER BY or LIMIT, planned as a query over the partitions: Spark evaluates the conditions
 * that the service cannot.
 */
object PartitionQuery {
  def apply(table: CatalogExtTable, action: QueryAction): LogicalPlan = {
    val clauses = Option.when(action.spec.nonEmpty)(PartitionClauses.equalities(action.spec)).toSeq
    // Let the service report an unpartitioned table. Spark would only complain about unknown columns in the condition.
    if (table.partitionSchema().isEmpty) table.partitions.list(clauses, limit = Some(0))
    val listed = new ListedPartitionsTable(table, clauses)
    val relation: LogicalPlan = DataSourceV2Relation.create(listed, None, None)
    val chosen = action.condition.fold(relation)(Filter(_, relation))
    val sorted = if (action.order.isEmpty) chosen else Sort(action.order, global = true, chosen, None)
    val names = Project(Seq(Alias(UnresolvedAttribute.quoted(listed.nameColumn), "partition")()), sorted)
    action.limit.fold[LogicalPlan](names)(limit => GlobalLimit(limit, LocalLimit(limit, names)))
  }
}

/** The partitions that match the clauses, or all, as rows of typed keys and names. */
private class ListedPartitionsTable(table: CatalogExtTable, clauses: Seq[Seq[KeyComparison]])
  extends Table with SupportsRead {

  private val keys = table.partitionSchema()
  val nameColumn: String = Iterator.iterate("_partition")("_" + _)
    .find(name => !keys.fieldNames.exists(_.equalsIgnoreCase(name))).get

  override def name(): String = s"partitions of ${table.name()}"
  override def schema(): StructType = keys.add(nameColumn, StringType, nullable = false)
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = new Builder

  private class Builder extends FilteredBuilder(SparkSession.active) with SupportsPushDownLimit {
    private var filters: Seq[Expression] = Nil
    private var limit: Option[Int] = None

    // Returns the filters that Spark must evaluate, such as those with Python functions. `TablePartitions.list`
    // evaluates all others exactly.
    override def pushFilters(given: Seq[Expression]): Seq[Expression] = {
      val (ours, sparks) = given.partition(PartitionFilter.isOf(keys, _))
      filters = ours
      sparks
    }

    override def pushedFilters(): Array[Predicate] = Array.empty

    override def pushLimit(most: Int): Boolean = {
      limit = Some(most)
      true
    }

    override def build(): Scan = new LocalScan {
      override def readSchema(): StructType = schema()
      override def description(): String = name()
      override lazy val rows: Array[InternalRow] = table.partitions.list(clauses, filters, limit).map { partition =>
        new GenericInternalRow(
          partition.values.toSeq(keys).toArray[Any] :+ UTF8String.fromString(partition.name)): InternalRow
      }.toArray
    }
  }
}
