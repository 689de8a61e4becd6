package org.apache.spark.sql.catalogext.commands

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.parser.{StatementCursor, StatementSyntax}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, SupportsNamespaces}
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** `SHOW CREATE DATABASE name` (or SCHEMA, NAMESPACE), which Doris and Hive have and Spark has not. */
object ShowCreateDatabaseSyntax extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] =
    if (!Seq("DATABASE", "SCHEMA", "NAMESPACE").exists(word => cursor.take("SHOW", "CREATE", word))) None
    else cursor.takeName().map { name =>
      // The parser asks whose a table of that name is: one in the namespace is whose the namespace is.
      cursor.begun(name :+ "any")
      ShowCreateDatabase(UnresolvedNamespace(name))
    }
}

/** The statement, once `child` is resolved. */
case class ShowCreateDatabase(
    child: LogicalPlan,
    override val output: Seq[Attribute] = Seq(
      AttributeReference("Database", StringType, nullable = false)(),
      AttributeReference("Create Database", StringType, nullable = false)()))
  extends UnaryCommand {

  override protected def withNewChildInternal(newChild: LogicalPlan): ShowCreateDatabase = copy(child = newChild)
}

/** Shows the CREATE DATABASE statement that makes a namespace like the given one. */
case class ShowCreateDatabaseExec(output: Seq[Attribute], catalog: SupportsNamespaces, namespace: Seq[String])
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val all = catalog.loadNamespaceMetadata(namespace.toArray).asScala.toMap
    val properties = all -- CatalogV2Util.NAMESPACE_RESERVED_PROPERTIES
    val name = (catalog.name() +: namespace).map(TableStatement.quotedIfNeeded).mkString(".")
    val parts = Seq(
      Some(s"CREATE DATABASE $name"),
      all.get(SupportsNamespaces.PROP_COMMENT).map(text => s"COMMENT ${TableStatement.literal(text)}"),
      all.get(SupportsNamespaces.PROP_LOCATION).map(text => s"LOCATION ${TableStatement.literal(text)}"),
      Option.when(properties.nonEmpty)(s"WITH DBPROPERTIES ${TableStatement.pairs(properties)}"))
    Seq(InternalRow(
      UTF8String.fromString(namespace.mkString(".")), UTF8String.fromString(parts.flatten.mkString("\n"))))
  }
}
