package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.{NamedRelation, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, OverwriteByExpression,
  OverwritePartitionsDynamic, V2WriteCommand}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege

/** INSERT, and the commands that Spark creates for it. */
object Inserts {
  /** Whether the statement defines which rows it replaces: REPLACE ON, REPLACE USING, and since 4.3 REPLACE WHERE. */
  def replaces(insert: InsertIntoStatement): Boolean = insert.replaceCriteriaOpt.isDefined

  /** `write` as a command that replaces the rows that match a condition. */
  def overwrite(
      write: V2WriteCommand, target: NamedRelation, condition: Expression, options: Map[String, String]): LogicalPlan =
    OverwriteByExpression(target, condition, write.query, options, write.isByName, write.withSchemaEvolution)

  /** `write` as a command that replaces the partitions that receive rows. */
  def overwritePartitions(write: V2WriteCommand, target: NamedRelation, options: Map[String, String]): LogicalPlan =
    OverwritePartitionsDynamic(target, write.query, options, write.isByName, write.withSchemaEvolution)

  /** The target of an INSERT. */
  def target(name: Seq[String]): UnresolvedRelation =
    UnresolvedRelation(name).requireWritePrivileges(Set(TableWritePrivilege.INSERT))
}
