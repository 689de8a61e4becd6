package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/** Passes the fields of a scan's node to the constructor of a subclass. */
abstract class CopiedScan(from: DataSourceV2ScanRelation)
  extends DataSourceV2ScanRelation(
    from.relation, from.scan, from.output, from.keyGroupedPartitioning, from.ordering,
    from.pushedFilters, from.mergeableScan)
