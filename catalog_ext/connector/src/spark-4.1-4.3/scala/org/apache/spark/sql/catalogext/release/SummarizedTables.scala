package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.{Identifier, SupportsNamespaces, TableCatalog, TableSummary}

/**
 * Lists the tables of the index with Spark's default table type; otherwise Spark would load each table to find its
 * type.
 */
trait ListedTables extends TableCatalog {
  override def listTableSummaries(namespace: Array[String]): Array[TableSummary] =
    listTables(namespace).map(TableSummary.of(_, TableSummary.FOREIGN_TABLE_TYPE))
}

/** The session catalog's list of tables with their types. */
trait SummarizedTables extends TableCatalog {
  protected def own: TableCatalog with SupportsNamespaces
  /** The tables of the index only. */
  def indexed: TableCatalog
  def indexedIn(namespace: Array[String]): Array[Identifier]

  override def listTableSummaries(namespace: Array[String]): Array[TableSummary] = {
    val listed = indexedIn(namespace)
    // The namespace may exist in the index only.
    val others =
      if (listed.isEmpty || own.namespaceExists(namespace)) own.listTableSummaries(namespace) else Array.empty[TableSummary]
    val theirs = others.filterNot { table =>
      table.identifier().namespace().nonEmpty && listed.exists(_.name().equalsIgnoreCase(table.identifier().name()))
    }
    if (listed.isEmpty) theirs else theirs ++ indexed.listTableSummaries(namespace)
  }
}
