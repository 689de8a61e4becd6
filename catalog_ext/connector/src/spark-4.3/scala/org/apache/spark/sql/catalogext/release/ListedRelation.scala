package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.FileRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

class ListedRelation(from: DataSourceV2ScanRelation, files: () => Array[String])
  extends DataSourceV2ScanRelation(
    from.relation, from.scan, from.output, from.keyGroupedPartitioning, from.ordering,
    from.pushedFilters, from.mergeableScan)
  with FileRelation {

  override def inputFiles: Array[String] = files()
  override def nodeName: String = from.nodeName
  // A rule's result that equals its input is dropped, whichever of the two Spark asks.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ListedRelation]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode()
  // Spark would look for a constructor that takes the node's fields.
  override def clone(): LogicalPlan = from.clone()
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan = from.makeCopy(arguments)
}
