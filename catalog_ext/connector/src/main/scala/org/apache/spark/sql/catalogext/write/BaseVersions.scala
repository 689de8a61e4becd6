package org.apache.spark.sql.catalogext.write

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression, OverwritePartitionsDynamic}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.write.Write
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, AdaptiveSparkPlanHelper}
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2Relation, DataSourceV2ScanRelation}

/**
 * Passes the lowest version at which the statement reads the target table to an overwrite or a replacement. Cached
 * plans count too. The written rows did not see later changes, so the commit must detect those as conflicts.
 */
object BaseVersions extends SparkStrategy with AdaptiveSparkPlanHelper {

  // This is a planner strategy, because extensions cannot add an optimizer rule after Spark's rule that builds writes.
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = (plan match {
    case overwrite: OverwriteByExpression =>
      based(overwrite.write, overwrite.query).map(w => overwrite.copy(write = Some(w)))
    case overwrite: OverwritePartitionsDynamic =>
      based(overwrite.write, overwrite.query).map(w => overwrite.copy(write = Some(w)))
    // In REPLACE TABLE ... AS the query may read the old table.
    case creation: AppendData => based(creation.write, creation.query).map(w => creation.copy(write = Some(w)))
    case _ => None
  }).map(planLater).toSeq

  private def based(write: Option[Write], query: LogicalPlan): Option[Write] = write match {
    case Some(ours: CatalogExtWrite) if ours.target.kind != SparkWriteKind.Append =>
      val read = tablesOf(query).filter(ours.target.isOf).map(_.metadata)
        .map(table => BaseVersion(table.tableId, table.version))
      // None if the write has the version already: planLater runs this strategy again on its own result.
      (ours.target.base ++ read).minByOption(base => (base.tableId, base.version))
        .filterNot(ours.target.base.contains(_)).map(ours.at)
    case _ => None
  }

  private def tablesOf(query: LogicalPlan): Seq[CatalogExtTable] =
    query.collectWithSubqueries {
      case scan: DataSourceV2ScanRelation => Seq(scan.relation.table)
      case relation: DataSourceV2Relation => Seq(relation.table)
      case cached: InMemoryRelation => tables(cached.cacheBuilder.cachedPlan)
    }.flatten.collect {
      // A version that the statement names does not become stale.
      case table: CatalogExtTable if !table.metadata.pinned => table
    }

  private def tables(plan: SparkPlan): Seq[Table] =
    collectWithSubqueries(plan) {
      case scan: BatchScanExec => Seq(scan.table)
      // Use the initial plan: at run time an adaptive plan removes scans without rows.
      case adaptive: AdaptiveSparkPlanExec => tables(adaptive.initialPlan)
      // Rows that the index has answered: their linked logical plan still has the scan of the table.
      case rows: LocalTableScanExec => rows.logicalLink.toSeq.flatMap(_.collect {
        case scan: DataSourceV2ScanRelation => scan.relation.table
      })
      case cached: InMemoryTableScanExec => tables(cached.relation.cacheBuilder.cachedPlan)
    }.flatten
}
