package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.catalog.CatalogExtTable
import org.apache.spark.sql.catalogext.release.Caches
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.classic.SparkSession

/** Spark's cache finds a table by its name, so a command that changes one has to invalidate it. */
object CachedPlans {
  /** Has what is cached of `table` read again at its next use. */
  def refresh(session: SparkSession, table: CatalogExtTable): Unit =
    refresh(session, Seq(table.catalogName, table.metadata.namespace, table.metadata.name))

  /** The same for a name as a procedure takes it, which may leave out the catalog. */
  def refresh(session: SparkSession, catalogName: String, table: String): Unit =
    nameParts(table).foreach(parts => refresh(session, if (parts.length == 2) catalogName +: parts else parts))

  private def refresh(session: SparkSession, qualified: Seq[String]): Unit =
    Caches.refresh(session, qualified)

  // What Spark cannot parse as a name, no statement can have cached.
  private def nameParts(table: String): Option[Seq[String]] =
    try Some(CatalystSqlParser.parseMultipartIdentifier(table)) catch {
      case _: ParseException => None
    }
}
