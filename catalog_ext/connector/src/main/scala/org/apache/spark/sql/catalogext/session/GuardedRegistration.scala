package org.apache.spark.sql.catalogext.session

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter, UnboundProcedure}
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.types.StructType

/**
 * `register_table` in the session catalog: refused for the name of a table of Spark's own, which would be hidden by the
 * registered one. A table at the same location is the same data, and is taken over.
 */
class GuardedRegistration(procedure: UnboundProcedure, own: TableCatalog) extends UnboundProcedure {
  override def name(): String = procedure.name()
  override def description(): String = procedure.description()
  override def bind(inputType: StructType): BoundProcedure = {
    val bound = procedure.bind(inputType)
    new BoundProcedure {
      override def name(): String = bound.name()
      override def description(): String = bound.description()
      override def parameters(): Array[ProcedureParameter] = bound.parameters()
      override def isDeterministic: Boolean = bound.isDeterministic
      override def call(input: InternalRow): java.util.Iterator[Scan] = {
        def argument(name: String): Option[String] =
          Some(parameters().indexWhere(_.name() == name)).filter(i => i >= 0 && !input.isNullAt(i))
            .map(input.getUTF8String(_).toString)
        for (table <- argument("table").flatMap(identifier) if own.tableExists(table)) {
          val there = Option(own.loadTable(table).properties().get(TableCatalog.PROP_LOCATION))
          if (there.map(plain) != argument("location").map(plain)) throw new TableAlreadyExistsException(table)
        }
        bound.call(input)
      }
    }
  }

  /** None for a text that names no table, which the procedure itself says. */
  private def identifier(text: String): Option[Identifier] =
    try CatalystSqlParser.parseMultipartIdentifier(text).takeRight(2) match {
      case Seq(namespace, table) => Some(Identifier.of(Array(namespace), table))
      case _ => None
    } catch { case _: ParseException => None }

  private def plain(location: String): String = {
    val uri = new Path(location).toUri
    val scheme = Option(uri.getScheme).filterNot(_ == "file").map(_.replaceFirst("^s3n?$", "s3a"))
    s"${scheme.getOrElse("")}|${Option(uri.getAuthority).getOrElse("")}|${uri.getPath}"
  }
}
