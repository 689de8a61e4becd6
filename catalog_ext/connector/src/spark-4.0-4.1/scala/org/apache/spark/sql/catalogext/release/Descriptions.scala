package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{DescribeRelation, LogicalPlan}

/** Extractor of DESCRIBE of a whole relation: the relation, and a function that replaces it in the plan. */
object DescribeWhole {
  def unapply(plan: LogicalPlan): Option[(LogicalPlan, LogicalPlan => LogicalPlan)] = plan match {
    case describe: DescribeRelation if describe.partitionSpec.isEmpty =>
      Some((describe.relation, other => describe.copy(relation = other)))
    case _ => None
  }
}

/** Extractor of DESCRIBE ... PARTITION: the values, whether it is EXTENDED, and the output. */
object DescribePartition {
  def unapply(plan: LogicalPlan): Option[(Map[String, String], Boolean, Seq[Attribute])] = plan match {
    case describe: DescribeRelation if describe.partitionSpec.nonEmpty =>
      Some((describe.partitionSpec, describe.isExtended, describe.output))
    case _ => None
  }
}
