package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.analysis.{UnresolvedInlineTable, UnresolvedStar}
import org.apache.spark.sql.catalyst.expressions.{Alias, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, Project}
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** Columns that an INSERT omits from its list. Before 4.1 Spark fills in defaults for its own tables only. */
object OmittedColumns {
  def filled(insert: InsertIntoStatement, columns: => StructType): InsertIntoStatement =
    if (insert.userSpecifiedCols.isEmpty) insert else {
      val given = insert.userSpecifiedCols ++ insert.partitionSpec.keys
      val omitted = columns.filterNot(column => given.exists(SQLConf.get.resolver(_, column.name)))
      // Spark reports a column without a default.
      val defaults = omitted.flatMap { column =>
        ResolveDefaultColumns.getDefaultValueExprOrNullLit(column, SQLConf.get.useNullsForMissingDefaultColumnValues)
      }
      if (defaults.isEmpty || defaults.length < omitted.length) insert
      else withValues(insert, omitted.map(_.name), defaults)
    }

  private def withValues(
      insert: InsertIntoStatement, names: Seq[String], values: Seq[NamedExpression]): InsertIntoStatement = {
    val query = insert.query match {
      // As a row of its own, in which Spark resolves the keyword DEFAULT.
      case inline: UnresolvedInlineTable =>
        val constants = values.map { case alias: Alias => alias.child; case other => other }
        inline.copy(names = inline.names ++ names, rows = inline.rows.map(_ ++ constants))
      case query => Project(UnresolvedStar(None) +: values, query)
    }
    insert.copy(query = query, userSpecifiedCols = insert.userSpecifiedCols ++ names)
  }
}
