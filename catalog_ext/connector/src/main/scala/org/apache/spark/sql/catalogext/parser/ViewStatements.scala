package org.apache.spark.sql.catalogext.parser

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalogext.views.{AddedPartitions, CatalogExtView, DroppedPartitions, RefusedChange,
  ViewPartition, ViewPartitionChange, ViewPartitionCommand}
import org.apache.spark.sql.catalyst.analysis.UnresolvedView
import org.apache.spark.sql.catalyst.plans.logical.{CreateView, LogicalPlan}

/**
 * `CREATE VIEW … PARTITIONED ON (…) … AS …`. Spark's grammar has the clause but refuses it. The clause is replaced with
 * blanks, so that error positions stay correct, and its columns are passed on as a property.
 */
object CreatePartitionedView extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] = {
    if (!cursor.take("CREATE")) return None
    cursor.take("OR", "REPLACE")
    if (!cursor.take("VIEW")) return None
    cursor.take("IF", "NOT", "EXISTS")
    cursor.takeName().flatMap { view =>
      cursor.textUpTo("PARTITIONED", "AS")
      Option.when(cursor.sees("PARTITIONED", "ON")) {
        cursor.begun(view)
        partitionedOn(cursor)
      }
    }
  }

  private def partitionedOn(cursor: StatementCursor): LogicalPlan = {
    val start = cursor.place._1
    cursor.expect("PARTITIONED", "ON", "(")
    val columns = ArrayBuffer(cursor.expectIdentifier("a column of the view"))
    while (cursor.take(",")) columns += cursor.expectIdentifier("a column of the view")
    val stop = cursor.place._2
    cursor.expect(")")
    cursor.rest
    cursor.parser.parsePlan(cursor.replaced((start, stop + 1, ""))) match {
      case view: CreateView =>
        view.copy(properties = view.properties + (CatalogExtView.PartitionedOn -> columns.mkString(",")))
      case _ => cursor.fail("a view that is kept in a catalog")
    }
  }
}

/** `ALTER VIEW v ADD [IF NOT EXISTS] PARTITION (…) …`, `ALTER VIEW v DROP [IF EXISTS] PARTITION (…), …`. */
object AlterViewPartitions extends StatementSyntax {
  private val Others = Seq("TOUCH", "ARCHIVE", "UNARCHIVE", "EXCHANGE", "RECOVER", "PARTITION", "ENABLE", "DISABLE")

  override def parse(cursor: StatementCursor): Option[LogicalPlan] =
    if (!cursor.take("ALTER", "VIEW")) None
    else cursor.takeName().flatMap { view =>
      if (cursor.sees("ADD")) Some(begin(cursor, view, "ADD", add(cursor)))
      else if (cursor.sees("DROP")) Some(begin(cursor, view, "DROP", drop(cursor)))
      else Others.find(cursor.sees(_)).map { word =>
        cursor.begun(view)
        cursor.rest
        ViewPartitionCommand(unresolved(cursor, view, word), RefusedChange(word), cursor.refusal)
      }
    }

  private def begin(
      cursor: StatementCursor, view: Seq[String], word: String, change: => ViewPartitionChange): LogicalPlan = {
    cursor.begun(view)
    ViewPartitionCommand(unresolved(cursor, view, s"$word PARTITION"), change, cursor.refusal)
  }

  private def unresolved(cursor: StatementCursor, view: Seq[String], command: String): LogicalPlan = cursor.placed(
    UnresolvedView(view, s"ALTER VIEW ... $command ...", allowTemp = false, suggestAlternative = false))

  private def add(cursor: StatementCursor): ViewPartitionChange = {
    cursor.expect("ADD")
    val ifNotExists = cursor.take("IF", "NOT", "EXISTS")
    val added = ArrayBuffer.empty[ViewPartition]
    do {
      cursor.expect("PARTITION")
      val values = PartitionClause.spec(cursor).toSeq
      added += ViewPartition(
        values, if (cursor.take("LOCATION")) Some(cursor.expectString("a location")) else None)
    } while (cursor.take(",") || cursor.sees("PARTITION"))
    AddedPartitions(added.toSeq, ifNotExists)
  }

  private def drop(cursor: StatementCursor): ViewPartitionChange = {
    cursor.expect("DROP")
    val ifExists = cursor.take("IF", "EXISTS")
    val dropped = ArrayBuffer.empty[ViewPartition]
    do {
      cursor.expect("PARTITION")
      dropped += ViewPartition(PartitionClause.spec(cursor).toSeq, None)
    } while (cursor.take(","))
    DroppedPartitions(dropped.toSeq, ifExists)
  }
}
