package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog, TableSummary}

/** The tables of the index with the kind that Spark gives to those that name none; it would load each for that. */
trait ListedTables extends TableCatalog {
  override def listTableSummaries(namespace: Array[String]): Array[TableSummary] =
    listTables(namespace).map(TableSummary.of(_, TableSummary.FOREIGN_TABLE_TYPE))
}

/** The session catalog's list of tables with their kinds. */
trait SummarizedTables extends TableCatalog {
  protected def own: TableCatalog
  /** The tables of the index alone. */
  def indexed: TableCatalog
  def indexedIn(namespace: Array[String]): Array[Identifier]

  override def listTableSummaries(namespace: Array[String]): Array[TableSummary] = {
    val names = indexedIn(namespace).map(_.name()).toSet
    own.listTableSummaries(namespace)
      .filterNot(table => table.identifier().namespace().nonEmpty && names.contains(table.identifier().name())) ++
      (if (names.isEmpty) Array.empty[TableSummary] else indexed.listTableSummaries(namespace))
  }
}
