package org.apache.spark.sql.catalogext.release

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalogext.catalog.CatalogBase
import org.apache.spark.sql.catalogext.views.{CatalogExtView, ViewOperations}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.catalog.CatalogTable._
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog, V1Table}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.StructType

/** Views in releases that have them in Spark's own catalog only: views of this connector can be read. */
object Views {
  /** A table or a view. */
  type Relation = AnyRef

  /** A view, with the methods of Spark's class since 4.2. */
  class View(builder: Builder) {
    val schema: StructType = builder.schema
    val properties: util.Map[String, String] = builder.properties
    val queryText: String = builder.queryText
    val currentCatalog: String = builder.currentCatalog
    val currentNamespace: Array[String] = builder.currentNamespace
    val sqlConfigs: util.Map[String, String] = builder.sqlConfigs
    val schemaMode: String = builder.schemaMode
    val queryColumnNames: Array[String] = builder.queryColumnNames
  }

  class Builder {
    private[Views] var schema: StructType = _
    private[Views] val properties = new util.HashMap[String, String]
    private[Views] var queryText: String = _
    private[Views] var currentCatalog: String = _
    private[Views] var currentNamespace: Array[String] = Array.empty
    private[Views] var sqlConfigs: util.Map[String, String] = util.Map.of()
    private[Views] var schemaMode: String = _
    private[Views] var queryColumnNames: Array[String] = Array.empty

    def withSchema(value: StructType): Builder = { schema = value; this }
    def withProperties(values: util.Map[String, String]): Builder = { properties.putAll(values); this }
    def withComment(value: String): Builder = { properties.put(TableCatalog.PROP_COMMENT, value); this }
    def withOwner(value: String): Builder = { properties.put(TableCatalog.PROP_OWNER, value); this }
    def withQueryText(value: String): Builder = { queryText = value; this }
    def withCurrentCatalog(value: String): Builder = { currentCatalog = value; this }
    def withCurrentNamespace(value: Array[String]): Builder = { currentNamespace = value; this }
    def withSqlConfigs(values: util.Map[String, String]): Builder = { sqlConfigs = values; this }
    def withSchemaMode(value: String): Builder = { schemaMode = value; this }
    def withQueryColumnNames(values: Array[String]): Builder = { queryColumnNames = values; this }
  }

  def builder(): Builder = new Builder

  /** The rules that views need; they find views by the names in a statement. */
  val rules: Seq[SparkSession => Rule[LogicalPlan]] = Seq(new RefuseViewStatements(_), new MarkLikeTables(_))

  /** A view of this connector in a statement that no rule of Spark's handles. */
  case class Named(view: CatalogExtView) extends LeafNode {
    override def output: Seq[Attribute] = Nil
  }

  /** Extractor of a view in a resolved statement: a view of this connector, or None for any other. */
  object Resolved {
    def unapply(plan: LogicalPlan): Option[Option[CatalogExtView]] = plan match {
      case Named(view) => Some(Some(view))
      case _ => None
    }
  }

  /** The plan of DESCRIBE of a partitioned view; None here, because `asTable` turns it into a table. */
  def described(plan: LogicalPlan): Option[SparkPlan] = None

  /** The view as a view of Spark's own catalog, which Spark can read from any catalog. */
  def asTable(view: CatalogExtView): Table = {
    val stored = Map(
      VIEW_QUERY_OUTPUT_NUM_COLUMNS -> view.queryColumnNames.length.toString,
      VIEW_SCHEMA_MODE -> Option(view.schemaMode).getOrElse("BINDING")) ++
      catalogAndNamespaceToProps(view.currentCatalog, view.currentNamespace.toSeq) ++
      view.queryColumnNames.zipWithIndex.map { case (name, i) => s"$VIEW_QUERY_OUTPUT_COLUMN_NAME_PREFIX$i" -> name } ++
      view.sqlConfigs.asScala.map { case (key, value) => s"$VIEW_SQL_CONFIG_PREFIX$key" -> value }
    V1Table(CatalogTable(
      TableIdentifier(view.metadata.name, Some(view.metadata.namespace), Some(view.catalogName)),
      CatalogTableType.VIEW, CatalogStorageFormat.empty, view.schema, viewText = Some(view.queryText),
      comment = view.metadata.comment, properties = view.properties.asScala.toMap ++ stored))
  }
}

/** A catalog whose views can be read. */
trait CatalogWithViews extends CatalogBase {
  import Views._

  protected def views: ViewOperations

  override def loadTable(ident: Identifier): Table = tables.loadRelation(ident) match {
    case view: CatalogExtView => asTable(view)
    case table: Table => table
    case _ => throw new NoSuchTableException(ident)
  }

  def relation(ident: Identifier): Option[Relation] = try Some(tables.loadRelation(ident)) catch {
    case _: NoSuchTableException => None
  }
}
