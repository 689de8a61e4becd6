package org.apache.spark.sql.catalogext.commands

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.CatalogExtSource
import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, PartitionColumns, TableMetadata}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{ResolvedNamespace, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ShowCreateTable}
import org.apache.spark.sql.connector.catalog.SupportsNamespaces
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.LeafV2CommandExec
import org.apache.spark.sql.types.StructField
import org.apache.spark.unsafe.types.UTF8String

/** Plans commands on tables that Spark's own executions show in part only. */
class TableCommandStrategy(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ShowCreateTable(ResolvedTable(_, _, table: CatalogExtTable, _), asSerde, output) =>
      Seq(ShowStatementExec(output, TableStatement(table, asSerde)))
    case ShowCreateDatabase(ResolvedNamespace(catalog: SupportsNamespaces, namespace, _), output) =>
      Seq(ShowCreateDatabaseExec(output, catalog, namespace))
    case _ => Nil
  }
}

/** Shows one text. */
case class ShowStatementExec(output: Seq[Attribute], statement: String) extends LeafV2CommandExec {
  override protected def run(): Seq[InternalRow] = Seq(InternalRow(UTF8String.fromString(statement)))
}

/** The CREATE TABLE statement that makes a table like the given one, without its rows. */
object TableStatement {
  private val PartitionMode = "partition-columns"

  def apply(table: CatalogExtTable, asSerde: Boolean): String = {
    val metadata = table.metadata
    refuseHiddenKeys(metadata)
    val external = metadata.tableType == "EXTERNAL"
    val keys = metadata.partitionColumns
    val shown = if (asSerde) metadata.columns.toSeq else metadata.columns ++ keys
    val columns = shown.map(column(metadata, _)).mkString("(\n  ", ",\n  ", ")")
    val name = (Seq(table.catalogName).filterNot(_ => asSerde) ++ Seq(metadata.namespace, metadata.name))
      .map(quotedIfNeeded).mkString(".")
    val options = metadata.options ++ CatalogExtSource.optionsIn(table.catalogName, metadata.format)
    val parts = Seq(
      Some(s"CREATE ${if (external && asSerde) "EXTERNAL " else ""}TABLE $name $columns"),
      Option.unless(asSerde)(s"USING ${CatalogExtSource.providerIn(table.catalogName, metadata.format)}"),
      Option.when(!asSerde && options.nonEmpty)(s"OPTIONS ${pairs(options)}"),
      metadata.comment.map(comment => s"COMMENT ${literal(comment)}"),
      Option.when(keys.nonEmpty)("PARTITIONED BY " + keys.map(key =>
        if (asSerde) column(metadata, key) else quotedIfNeeded(key.name)).mkString("(", ", ", ")")),
      Option.when(asSerde)(SerdeClauses(metadata)),
      Option.when(external)(s"LOCATION ${literal(metadata.location)}"),
      Some(properties(metadata)).filter(_.nonEmpty).map(all => s"TBLPROPERTIES ${pairs(all)}"))
    parts.flatten.mkString("", "\n", "\n")
  }

  private def column(table: TableMetadata, field: StructField): String = {
    val notNull = if (table.notNull.contains(field.name)) " NOT NULL" else ""
    val default = field.getCurrentDefaultValue().fold("")(value => s" DEFAULT $value")
    val comment = field.getComment().fold("")(text => s" COMMENT ${literal(text)}")
    s"${quotedIfNeeded(field.name)} ${field.dataType.sql}$notNull$default$comment"
  }

  /** What a CREATE TABLE does not set by itself. */
  private def properties(table: TableMetadata): Map[String, String] = {
    val own = table.properties.filterNot { case (key, _) => ColumnStatistics.isOne(key) } - "comment"
    if (table.declared) own - PartitionMode
    else if (table.partitionColumns.isEmpty) own
    else own + (PartitionMode -> "virtual")
  }

  private def refuseHiddenKeys(table: TableMetadata): Unit =
    table.partitionColumns.fieldNames.find(key => table.columns.fieldNames.exists(_.equalsIgnoreCase(key))).foreach(
      key => throw ConnectorErrors.notSupported(
        s"No CREATE TABLE statement makes table ${table.qualifiedName}: its data column '$key' hides the partition " +
          "column of that name. CALL system.register_table with the schema makes such a table."))

  def pairs(values: Map[String, String]): String =
    values.toSeq.sorted.map { case (key, value) => s"${literal(key)} = ${literal(value)}" }
      .mkString("(\n  ", ",\n  ", ")")

  def quotedIfNeeded(name: String): String =
    if (name.matches("[a-zA-Z_][a-zA-Z0-9_]*")) name else PartitionColumns.quoted(name)

  /** The text as a string of SQL. */
  def literal(value: String): String = value.map {
    case '\'' => "\\'"
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case c if c < ' ' => "\\u%04x".formatLocal(Locale.ROOT, c.toInt)
    case c => c.toString
  }.mkString("'", "", "'")
}

/** The clauses of Hive that say a table's format. */
private object SerdeClauses {
  def apply(table: TableMetadata): String = table.format match {
    case "parquet" | "orc" => s"STORED AS ${table.format.toUpperCase(Locale.ROOT)}"
    case "json" => "STORED AS JSONFILE"
    case "csv" if table.options.get("quote").contains("") =>
      // Not ROW FORMAT DELIMITED: Spark's parser passes over its NULL DEFINED AS.
      val settings = Map(
        "field.delim" -> table.options.getOrElse("sep", ","),
        "serialization.null.format" -> table.options.getOrElse("nullValue", ""))
      s"ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'\nWITH SERDEPROPERTIES " +
        s"${TableStatement.pairs(settings)}\nSTORED AS TEXTFILE"
    case other => throw ConnectorErrors.notSupported(
      s"SHOW CREATE TABLE ${table.qualifiedName} AS SERDE: Hive has no clause for the format $other with the table's " +
        "options. Leave out AS SERDE.")
  }
}
