package org.apache.spark.sql.catalogext.session

import org.apache.spark.sql.catalogext.commands.{ServiceProcedure, SessionTable}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter}
import org.apache.spark.sql.connector.read.Scan

/**
 * `register_table` in the session catalog: the service learns where a table of Spark's own lies that has the name,
 * because the registered one would hide it. One at the same location is the same data, and is taken over.
 */
class GuardedRegistration(procedure: ServiceProcedure, own: TableCatalog, prepareNamespace: Array[String] => Unit)
  extends BoundProcedure {
  override def name(): String = procedure.name()
  override def description(): String = procedure.description()
  override def parameters(): Array[ProcedureParameter] = procedure.parameters
  override def isDeterministic: Boolean = procedure.isDeterministic

  override def call(input: InternalRow): java.util.Iterator[Scan] = {
    val table = name(input).flatMap(identifier)
    table.foreach(ident => prepareNamespace(ident.namespace()))
    procedure.call(input, table.filter(own.tableExists).map { there =>
      SessionTable(there, Option(own.loadTable(there).properties().get(TableCatalog.PROP_LOCATION)))
    })
  }

  private def name(input: InternalRow): Option[String] =
    Some(parameters().indexWhere(_.name() == "table")).filter(i => i >= 0 && !input.isNullAt(i))
      .map(input.getUTF8String(_).toString)

  /** None for a text that names no table, which the procedure itself says. */
  private def identifier(text: String): Option[Identifier] =
    try CatalystSqlParser.parseMultipartIdentifier(text).takeRight(2) match {
      case Seq(namespace, table) => Some(Identifier.of(Array(namespace), table))
      case _ => None
    } catch { case _: ParseException => None }
}
