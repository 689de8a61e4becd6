package org.apache.spark.sql.catalogext.parser

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalogext.commands.{AddAction, DropAction, ExchangePartitions, KeyComparison,
  PartitionAction, PartitionCommand, QueryAction, ShowAction}
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ShowPartitions}

/**
 * `ALTER TABLE … ADD PARTITION (…), PARTITION (…)`, `DROP PARTITION` with comparisons, and `EXCHANGE PARTITION`: syntax
 * of Hive and Flink that Spark's grammar lacks.
 */
object AlterPartitions extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] =
    if (!cursor.take("ALTER", "TABLE")) None
    else cursor.takeName().flatMap { table =>
      if (adds(cursor)) Some(begin(cursor, table, "ADD PARTITION", add(cursor)))
      else if (drops(cursor)) Some(begin(cursor, table, "DROP PARTITION", drop(cursor)))
      else if (cursor.take("EXCHANGE")) {
        cursor.begun(table)
        val target = cursor.placed(exchanged(table))
        Some(exchange(cursor, target))
      } else None
    }

  private def adds(cursor: StatementCursor): Boolean =
    cursor.sees("ADD", "PARTITION") || cursor.sees("ADD", "IF", "NOT", "EXISTS", "PARTITION")

  private def drops(cursor: StatementCursor): Boolean =
    cursor.sees("DROP", "PARTITION") || cursor.sees("DROP", "IF", "EXISTS", "PARTITION")

  private def begin(
      cursor: StatementCursor, table: Seq[String], command: String, action: => PartitionAction): LogicalPlan = {
    cursor.begun(table)
    val unresolved = cursor.placed(
      UnresolvedTable(table, s"ALTER TABLE ... $command ...", suggestAlternative = false))
    PartitionCommand(unresolved, action, Left(cursor.refusal))
  }

  private def add(cursor: StatementCursor): PartitionAction = {
    cursor.expect("ADD")
    val ifNotExists = cursor.take("IF", "NOT", "EXISTS")
    val added = ArrayBuffer.empty[(Map[String, String], Option[String])]
    do {
      cursor.expect("PARTITION")
      val spec = PartitionClause.spec(cursor)
      added += spec -> (if (cursor.take("LOCATION")) Some(cursor.expectString("a location")) else None)
    } while (cursor.take(",") || cursor.sees("PARTITION"))
    AddAction(added.toSeq, ifNotExists)
  }

  private def drop(cursor: StatementCursor): PartitionAction = {
    cursor.expect("DROP")
    val ifExists = cursor.take("IF", "EXISTS")
    val clauses = ArrayBuffer.empty[Seq[KeyComparison]]
    do {
      cursor.expect("PARTITION")
      clauses += PartitionClause.comparisons(cursor)
    } while (cursor.take(","))
    DropAction(clauses.toSeq, ifExists, purge = cursor.take("PURGE"))
  }

  private def exchanged(table: Seq[String]): LogicalPlan =
    UnresolvedTable(table, "ALTER TABLE ... EXCHANGE PARTITION ...", suggestAlternative = false)

  private def exchange(cursor: StatementCursor, target: LogicalPlan): LogicalPlan = {
    val specs = ArrayBuffer.empty[Map[String, String]]
    cursor.expect("PARTITION")
    // Flink's documentation wraps the specs in another pair of parentheses.
    val nested = cursor.sees("(", "(")
    if (nested) cursor.expect("(")
    do {
      if (specs.nonEmpty) cursor.take("PARTITION")
      specs += PartitionClause.spec(cursor)
    } while (cursor.take(","))
    if (nested) cursor.expect(")")
    cursor.expect("WITH", "TABLE")
    val source = cursor.expectName("a table's name")
    ExchangePartitions(target, cursor.placed(exchanged(source)), specs.toSeq, cursor.refusal)
  }
}

/** `SHOW PARTITIONS t [PARTITION (…)] [WHERE …] [ORDER BY …] [LIMIT n]`, the syntax of Hive 4. */
object ShowSomePartitions extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] =
    if (!cursor.take("SHOW", "PARTITIONS")) None
    else cursor.takeName().map { table =>
      cursor.begun(table)
      val unresolved = cursor.placed(UnresolvedTable(table, "SHOW PARTITIONS", suggestAlternative = false))
      val spec = if (cursor.take("PARTITION")) PartitionClause.spec(cursor) else Map.empty[String, String]
      val condition =
        if (cursor.take("WHERE")) Some(cursor.expectExpression("a condition", "ORDER", "LIMIT")) else None
      val order = if (cursor.take("ORDER")) {
        cursor.expect("BY")
        Some(cursor.expectOrder("a partition column", "LIMIT"))
      } else None
      val limit = if (cursor.take("LIMIT")) Some(cursor.expectExpression("a number")) else None
      // Spark's parser can handle a statement without these clauses, and its refusal of a duplicate key must stay.
      val action =
        if (spec.nonEmpty && condition.isEmpty && order.isEmpty && limit.isEmpty)
          ShowAction(Some(spec), ShowPartitions.getOutputAttrs)
        else QueryAction(spec, condition, order.getOrElse(Nil), limit)
      PartitionCommand(unresolved, action, Left(cursor.refusal))
    }
}

/** The parenthesized part after PARTITION. */
object PartitionClause {
  private val Operators = Seq("=", "==", "!=", "<>", "<=", ">=", "<", ">")

  /** Parses `(key = value, …)`. */
  def spec(cursor: StatementCursor): Map[String, String] = {
    val found = ArrayBuffer.empty[(String, String)]
    inParentheses(cursor) {
      val key = cursor.expectIdentifier("a partition column")
      if (!cursor.take("=") && !cursor.take("==")) cursor.fail("'='")
      if (found.exists(_._1 == key)) cursor.fail(s"no second value for the partition column '$key'")
      found += key -> value(cursor)
    }
    found.toMap
  }

  /** Parses `(key < value, key IN (…), …)`. */
  def comparisons(cursor: StatementCursor): Seq[KeyComparison] = {
    val found = ArrayBuffer.empty[KeyComparison]
    inParentheses(cursor) {
      val key = cursor.expectIdentifier("a partition column")
      if (cursor.take("IN")) {
        val values = ArrayBuffer.empty[String]
        inParentheses(cursor)(values += value(cursor))
        found += KeyComparison(key, "in", values.toSeq)
      } else Operators.find(cursor.take(_)) match {
        case Some(operator) => found += KeyComparison(key, canonical(operator), Seq(value(cursor)))
        case None => cursor.fail(s"one of ${Operators.mkString(" ")} IN")
      }
    }
    found.toSeq
  }

  private def canonical(operator: String): String = operator match {
    case "==" => "="
    case "<>" => "!="
    case other => other
  }

  private def inParentheses(cursor: StatementCursor)(item: => Unit): Unit = {
    cursor.expect("(")
    do item while (cursor.take(","))
    if (!cursor.take(")")) cursor.fail("',' or ')'")
  }

  private def value(cursor: StatementCursor): String = cursor.expectConstant("a constant", ",", ")")
}
