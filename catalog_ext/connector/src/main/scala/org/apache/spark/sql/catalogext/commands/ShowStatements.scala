package org.apache.spark.sql.catalogext.commands

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalogext.{CatalogExtSessionCatalog, CatalogExtSource}
import org.apache.spark.sql.catalogext.catalog.{CatalogBase, CatalogExtTable, TableMetadata}
import org.apache.spark.sql.catalogext.parser.{SqlText, StatementCursor, StatementSyntax}
import org.apache.spark.sql.catalogext.release.ShownProcedures
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.ServiceException.translating
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{ResolvedNamespace, ResolvedTable, UnresolvedNamespace}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ShowCreateTable, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, SupportsNamespaces, TableCatalog}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StringType, StructField, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** Plans SHOW CREATE TABLE and other commands for which Spark's own execution shows only a part of the table. */
class TableCommandStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ShowCreateTable(ResolvedTable(_, _, table: CatalogExtTable, _), asSerde, output) =>
      Seq(ShowStatementExec(output, TableStatement(table, asSerde)))
    case ShowCreateDatabase(ResolvedNamespace(catalog: SupportsNamespaces, namespace, _), output) =>
      Seq(ShowCreateDatabaseExec(output, catalog, namespace))
    case _ => Nil
  }
}

/** A command whose result is one row with a text. */
case class ShowStatementExec(output: Seq[Attribute], statement: String) extends LeafV2CommandExec {
  override protected def run(): Seq[InternalRow] = Seq(InternalRow(UTF8String.fromString(statement)))
}

/** Builds the CREATE TABLE statement that creates an empty table like the given one. */
object TableStatement {
  def apply(table: CatalogExtTable, asSerde: Boolean): String = {
    val metadata = table.metadata
    refuseHiddenKeys(metadata)
    val external = metadata.tableType == "EXTERNAL"
    val keys = metadata.partitionColumns
    val shown = if (asSerde) metadata.columns.toSeq else metadata.columns ++ keys
    val columns = shown.map(column(metadata, _)).mkString("(\n  ", ",\n  ", ")")
    val name = Seq(table.catalogName, metadata.namespace, metadata.name).map(quoteIfNeeded).mkString(".")
    val options = metadata.options ++ CatalogExtSource.optionsIn(table.catalogName, metadata.format)
    val (collation, properties) = metadata.shownProperties.partition(_._1 == TableCatalog.PROP_COLLATION)
    val parts = Seq(
      Some(s"CREATE ${if (external && asSerde) "EXTERNAL " else ""}TABLE $name $columns"),
      Option.unless(asSerde)(s"USING ${CatalogExtSource.providerIn(table.catalogName, metadata.format)}"),
      Option.when(!asSerde && options.nonEmpty)(s"OPTIONS ${SqlText.pairs(options)}"),
      metadata.comment.map(comment => s"COMMENT ${SqlText.literal(comment)}"),
      Option.when(keys.nonEmpty)("PARTITIONED BY " + keys.map(key =>
        if (asSerde) column(metadata, key) else quoteIfNeeded(key.name)).mkString("(", ", ", ")")),
      Option.when(asSerde)(hiveClauses(table)),
      Option.when(external)(s"LOCATION ${SqlText.literal(location(metadata))}"),
      Option.unless(asSerde)(collation.values).flatMap(_.headOption).map(name => s"DEFAULT COLLATION $name"),
      Some(properties).filter(_.nonEmpty).map(all => s"TBLPROPERTIES ${SqlText.pairs(all)}"))
    parts.flatten.mkString("", "\n", "\n")
  }

  /** The location as a SQL literal. Wildcard characters that are part of a directory's name are escaped. */
  private def location(metadata: TableMetadata): String =
    if (metadata.properties.keys.exists(_.equalsIgnoreCase("location-wildcards"))) metadata.location
    else escaped(metadata.location)

  /** The pattern that matches only this location, as `escape` of `metastore/storage/patterns.py`. */
  private[catalogext] def escaped(location: String): String = location.replaceAll("([*?{\\\\])", "\\\\$1")

  /** The Hive clauses of CREATE TABLE for the table's format, from the service. */
  private def hiveClauses(table: CatalogExtTable): String = {
    val name = obj("namespace" -> text(table.metadata.namespace), "name" -> text(table.metadata.name))
    val clauses = translating(table.client.call("tables/hive_clauses", name))
    val serde = clauses.stringOption("serde").map(serde => s"ROW FORMAT SERDE ${SqlText.literal(serde)}")
    val properties = Some(clauses.stringMap("serde_properties")).filter(_.nonEmpty)
      .map(all => s"WITH SERDEPROPERTIES ${SqlText.pairs(all)}")
    Seq(serde, properties, Some(s"STORED AS ${clauses.string("stored_as")}")).flatten.mkString("\n")
  }

  private def column(table: TableMetadata, field: StructField): String = {
    val notNull = if (table.notNull.contains(field.name)) " NOT NULL" else ""
    val default = field.getCurrentDefaultValue().fold("")(value => s" DEFAULT $value")
    val comment = field.getComment().fold("")(text => s" COMMENT ${SqlText.literal(text)}")
    val dataType =
      if (table.properties.contains(TableCatalog.PROP_COLLATION)) explicit(field.dataType) else field.dataType.sql
    s"${quoteIfNeeded(field.name)} $dataType$notNull$default$comment"
  }

  /**
   * The type with an explicit collation for each string. Otherwise a string would get the table's default collation.
   */
  private def explicit(dataType: DataType): String = dataType match {
    case struct: StructType => struct.map { field =>
      val notNull = if (field.nullable) "" else " NOT NULL"
      val comment = field.getComment().fold("")(text => s" COMMENT ${SqlText.literal(text)}")
      s"${quoteIfNeeded(field.name)}: ${explicit(field.dataType)}$notNull$comment"
    }.mkString("STRUCT<", ", ", ">")
    case array: ArrayType => s"ARRAY<${explicit(array.elementType)}>"
    // The keys of a map have no collation.
    case map: MapType => s"MAP<${map.keyType.sql}, ${explicit(map.valueType)}>"
    case string: StringType if !string.sql.contains(" COLLATE ") => s"${string.sql} COLLATE UTF8_BINARY"
    case other => other.sql
  }

  private def refuseHiddenKeys(table: TableMetadata): Unit =
    table.partitionColumns.fieldNames.find(key => table.columns.fieldNames.exists(_.equalsIgnoreCase(key))).foreach(
      key => throw ConnectorErrors.notSupported(
        s"No CREATE TABLE statement makes table ${table.qualifiedName}: its data column '$key' hides the partition " +
          "column of that name. CALL system.register_table with the schema makes such a table."))
}

/** `SHOW CREATE DATABASE name` (or SCHEMA, NAMESPACE) of Doris and Hive, which Spark lacks. */
object ShowCreateDatabaseSyntax extends StatementSyntax {
  override def parse(cursor: StatementCursor): Option[LogicalPlan] =
    if (!Seq("DATABASE", "SCHEMA", "NAMESPACE").exists(word => cursor.take("SHOW", "CREATE", word))) None
    else cursor.takeName().map { name =>
      // Declare a name in the namespace, because the parser decides by a table's name whether a statement is about a
      // catalog of this connector. Any table name gives the same answer.
      cursor.begun(name :+ "any")
      ShowCreateDatabase(UnresolvedNamespace(name))
    }
}

/** SHOW CREATE DATABASE with its unresolved or resolved namespace. */
case class ShowCreateDatabase(
    child: LogicalPlan,
    override val output: Seq[Attribute] = Seq(
      AttributeReference("Database", StringType, nullable = false)(),
      AttributeReference("Create Database", StringType, nullable = false)()))
  extends UnaryCommand {

  override protected def withNewChildInternal(newChild: LogicalPlan): ShowCreateDatabase = copy(child = newChild)
}

/** Returns the CREATE DATABASE statement that creates a namespace like the given one. */
case class ShowCreateDatabaseExec(output: Seq[Attribute], catalog: SupportsNamespaces, namespace: Seq[String])
  extends LeafV2CommandExec {

  override protected def run(): Seq[InternalRow] = {
    val all = catalog.loadNamespaceMetadata(namespace.toArray).asScala.toMap
    val properties = all -- CatalogV2Util.NAMESPACE_RESERVED_PROPERTIES
    val name = (catalog.name() +: namespace).map(quoteIfNeeded).mkString(".")
    val parts = Seq(
      Some(s"CREATE DATABASE $name"),
      all.get(SupportsNamespaces.PROP_COMMENT).map(text => s"COMMENT ${SqlText.literal(text)}"),
      all.get(SupportsNamespaces.PROP_LOCATION).map(text => s"LOCATION ${SqlText.literal(text)}"),
      Option.when(properties.nonEmpty)(s"WITH DBPROPERTIES ${SqlText.pairs(properties)}"))
    Seq(InternalRow(
      UTF8String.fromString(namespace.mkString(".")), UTF8String.fromString(parts.flatten.mkString("\n"))))
  }
}

/** Adds the parameters to SHOW PROCEDURES of this connector's catalogs, after Spark's own columns. */
class ShowSignatures extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case ShownProcedures(ResolvedNamespace(catalog: CatalogBase, namespace, _), output) =>
      signatures(catalog, namespace, output)
    case ShownProcedures(ResolvedNamespace(catalog: CatalogExtSessionCatalog, namespace, _), output) =>
      signatures(catalog.indexed, namespace, output)
  }

  private def signatures(catalog: CatalogBase, namespace: Seq[String], output: Seq[Attribute]): LogicalPlan = {
    val more = Seq("parameters", "description").map(AttributeReference(_, StringType, nullable = false)())
    ShowSignaturesCommand(catalog, namespace, output ++ more)
  }
}

case class ShowSignaturesCommand(catalog: CatalogBase, namespace: Seq[String], override val output: Seq[Attribute])
  extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] =
    catalog.procedureSignatures(namespace.toArray).map { procedure =>
      val schema = ProcedureOperations.Namespace
      Row(catalog.name(), schema.toSeq, schema.last, procedure.name, procedure.parameters, procedure.description)
    }
}
