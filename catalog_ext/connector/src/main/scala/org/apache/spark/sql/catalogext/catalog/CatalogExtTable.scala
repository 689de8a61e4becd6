package org.apache.spark.sql.catalogext.catalog

import java.util

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalogext.commands.{PartitionClauses, PartitionDeletion, PartitionRequests,
  TablePartitions}
import org.apache.spark.sql.catalogext.release.VersionedTable
import org.apache.spark.sql.catalogext.scan.{CatalogExtScanBuilder, FileColumns, SharedFiles}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, Json, ServiceClient}
import org.apache.spark.sql.catalogext.write.{CatalogExtWriteBuilder, WriteMarks, WriteTarget}
import org.apache.spark.sql.catalyst.analysis.NoSuchPartitionException
import org.apache.spark.sql.catalyst.expressions.{Expression, PredicateHelper, SubqueryExpression}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table at one version. Virtual partition columns are metadata columns, so that `SELECT *` omits them; declared ones
 * follow the data columns.
 *
 * @param target whether this is the target of a statement that writes: then all partition columns are ordinary columns,
 *               which follow the data columns
 * @param versioned false for the target of a DELETE: Spark plans it as a scan and would reload the table as a source,
 *                  whose columns differ
 */
class CatalogExtTable(
    val catalogName: String,
    val metadata: TableMetadata,
    val client: ServiceClient,
    virtualColumnsShown: Boolean,
    private val target: Option[StructType] = None,
    versioned: Boolean = true)
  extends VersionedTable with SupportsRead with SupportsWrite with SupportsMetadataColumns
  with SupportsAtomicPartitionManagement with SupportsDeleteV2 with PredicateHelper {

  private val visibleKeys = PartitionColumns.visible(metadata, SQLConf.get.resolver)
  private[catalogext] lazy val partitions = new TablePartitions(client, metadata)
  private val keysAreColumns = metadata.declared || target.isDefined
  // Spark uses one table object for all references in a statement, so they can share the planned files.
  private val sharedFiles = new SharedFiles
  private[catalogext] def deletion = new PartitionDeletion(client, catalogName, metadata)

  override def name(): String = s"$catalogName.${metadata.qualifiedName}"

  // Spark reloads an uncached table before each execution, and compares its id and version.
  override def id(): String = metadata.tableId.toString
  override def version(): String = if (versioned) metadata.version.toString else null

  override def schema(): StructType = target.getOrElse(
    if (metadata.declared) StructType(metadata.columns ++ visibleKeys) else metadata.columns)

  // Empty for virtual keys: Spark looks up each partitioning column in schema(), and fails if it is missing there.
  override def partitioning(): Array[Transform] =
    if (keysAreColumns) visibleKeys.fieldNames.map(key => Expressions.identity(quoteIdentifier(key)))
    else Array.empty

  override def metadataColumns(): Array[MetadataColumn] = {
    val keys = if (keysAreColumns || !virtualColumnsShown) Nil else visibleKeys.toSeq
    (keys.map(key => VirtualColumn(
      key.name, CharVarcharUtils.replaceCharVarcharWithString(key.dataType), key.getComment().orNull)) ++
      FileColumns.metadataColumns(metadata, SQLConf.get.resolver) ++ fileMetadata).toArray
  }

  private def fileMetadata: Option[MetadataColumn] =
    Option.unless(visibleKeys.exists(key => SQLConf.get.resolver(key.name, FileFormat.METADATA_NAME)))(
      VirtualColumn(FileFormat.METADATA_NAME, StructType(FileFormat.BASE_METADATA_FIELDS), null))

  override def properties(): util.Map[String, String] = {
    val reserved = Map(
      TableCatalog.PROP_PROVIDER -> metadata.format,
      TableCatalog.PROP_LOCATION -> metadata.location) ++
      metadata.owner.map(TableCatalog.PROP_OWNER -> _) ++
      metadata.comment.map(TableCatalog.PROP_COMMENT -> _) ++
      Option.when(metadata.tableType == "EXTERNAL")(TableCatalog.PROP_EXTERNAL -> "true")
    val options = metadata.options.map { case (key, value) => s"${TableCatalog.OPTION_PREFIX}$key" -> value }
    (LineageNames.of(catalogName, metadata) ++ metadata.shownProperties ++ options ++ reserved).asJava
  }

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.OVERWRITE_BY_FILTER,
    TableCapability.OVERWRITE_DYNAMIC, TableCapability.TRUNCATE,
    TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new CatalogExtScanBuilder(SparkSession.active, client, catalogName, metadata, options, sharedFiles)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val marks = WriteMarks.of(info.options())
    val target = WriteTarget(
      client, catalogName, metadata, operation = marks.operation, staticKeys = marks.staticKeys, keep = marks.keep,
      clauses = marks.clauses, base = marks.base)
    new CatalogExtWriteBuilder(SparkSession.active, target, WriteMarks.without(info))
  }

  override def canDeleteWhere(predicates: Array[Predicate]): Boolean = deletion.translate(predicates).isDefined
  override def deleteWhere(predicates: Array[Predicate]): Unit = deletion.delete(predicates)
  override def truncateTable(): Boolean = deletion.truncateAll()

  /** Raises an error that explains which conditions DELETE supports, if it does not support `condition`. */
  def checkDeletion(condition: Expression): Unit = {
    val parts = splitConjunctivePredicates(condition).map(DataSourceV2Strategy.translateFilterV2)
    if (SubqueryExpression.hasSubquery(condition) || parts.contains(None) || !canDeleteWhere(parts.flatten.toArray)) {
      throw PartitionDeletion.notOfPartitions(metadata, condition.sql)
    }
  }

  override def partitionSchema(): StructType = partitions.schema

  override def listPartitionIdentifiers(names: Array[String], ident: InternalRow): Array[InternalRow] =
    partitions.matching(names.toSeq, ident).map(_.values).toArray

  override def loadPartitionMetadata(ident: InternalRow): util.Map[String, String] =
    partitions.described(partitionSchema().fieldNames.toSeq, ident).getOrElse(
      throw new NoSuchPartitionException(name(), ident, partitionSchema())).properties.asJava

  // Spark calls this in a session without this connector's planner strategy. Spark has already checked which partitions
  // exist, so IF EXISTS and IF NOT EXISTS need no handling here.
  override def createPartitions(idents: Array[InternalRow], properties: Array[util.Map[String, String]]): Unit =
    requests.add(idents.toSeq.map(spec(_)).zip(properties.map(p => Option(p.get("location")))), ifNotExists = false)
  override def dropPartitions(idents: Array[InternalRow]): Boolean = dropRows(idents, purge = false)
  override def purgePartitions(idents: Array[InternalRow]): Boolean = dropRows(idents, purge = true)
  override def truncatePartition(ident: InternalRow): Boolean =
    deletion.truncate(PartitionClauses.equalities(literals(ident)))
  override def truncatePartitions(idents: Array[InternalRow]): Boolean = deletion.truncate(idents)
  override def renamePartition(from: InternalRow, to: InternalRow): Boolean = {
    requests.rename(spec(from), spec(to))
    true
  }
  override def replacePartitionMetadata(ident: InternalRow, properties: util.Map[String, String]): Unit =
    throw ConnectorErrors.notSupported(s"Partitions of catalog-ext have no properties of their own (table ${name()}).")

  private def requests = new PartitionRequests(this)
  private def literals(ident: InternalRow) = PartitionClauses.literals(metadata, ident)
  private def spec(ident: InternalRow) = Json.map(literals(ident))

  private def dropRows(idents: Array[InternalRow], purge: Boolean): Boolean = {
    requests.dropMatching(idents.toSeq.map(PartitionClauses.predicate(metadata, _)), ifExists = false, purge)
    true
  }

  /**
   * The table as the session catalog shows it: partition columns are ordinary columns or virtual, by the session's
   * conf.
   */
  def inSessionCatalog(conf: SQLConf): CatalogExtTable = {
    val mode = ResolvedSettings.of(
      "session_catalog", client, catalogName, metadata, CaseInsensitiveStringMap.empty(), conf)
    val declared = mode.text(CatalogOptions.PartitionColumns).contains("declared")
    new CatalogExtTable(catalogName, metadata.copy(declared = declared), client, virtualColumnsShown, target)
  }

  /** The table with its virtual keys as columns, for statements that list columns; None if there is no key to add. */
  def withKeysListed: Option[CatalogExtTable] =
    Option.when(!keysAreColumns && virtualColumnsShown && visibleKeys.nonEmpty) {
      val columns = StructType(metadata.columns ++ PartitionColumns.marked(visibleKeys))
      new CatalogExtTable(catalogName, metadata, client, virtualColumnsShown, Some(columns))
    }

  // Two tables with the same id and version are equal, so that Spark reuses cached plans. The target of a write is equal
  // to another target of the same table, version and columns, but never to a source: a cached plan reads a source. For
  // a table with declared keys only `target` distinguishes the two.
  override def equals(other: Any): Boolean = other match {
    case that: CatalogExtTable =>
      catalogName == that.catalogName && metadata == that.metadata && schema() == that.schema() &&
        target.isDefined == that.target.isDefined
    case _ => false
  }

  override def hashCode(): Int = (catalogName, metadata.tableId, metadata.version).hashCode()
}

/** A metadata column, which `SELECT *` omits. */
private[catalogext] case class VirtualColumn(name: String, dataType: DataType, override val comment: String)
  extends MetadataColumn {

  override def isNullable: Boolean = name != FileFormat.METADATA_NAME

  // Marks the column as a partition column, so that joins by column names can distinguish it from other metadata columns.
  override def metadataInJSON(): String =
    if (name == FileFormat.METADATA_NAME || FileColumns.isOne(name)) null else s"""{"${VirtualColumn.KeyMark}":true}"""
}

private[catalogext] object VirtualColumn {
  val KeyMark = "__catalog_ext_partition_column"
}

/**
 * The name of a table in OpenLineage events: its location, as OpenLineage names files and Hive tables, plus the table's
 * own name. OpenLineage's listener reads both from the table's properties; they are hidden in every other place.
 */
private[catalog] object LineageNames {
  private val Prefix = "openlineage.dataset."
  private val Listener = "io.openlineage.spark.agent.OpenLineageSparkListener"
  private val Metastore = "hive.metastore.uris"

  /** The lineage properties if the session's context has OpenLineage's listener; otherwise none. */
  def of(catalogName: String, table: TableMetadata): Map[String, String] =
    SparkContext.getActive.filter(_.conf.get("spark.extraListeners", "").contains(Listener)).fold(Map.empty[String, String]) {
      context =>
        val metastore = Option(context.hadoopConfiguration.get(Metastore)).filter(_.nonEmpty)
        val (namespace, name) = dataset(table.location)
        val symlink = obj("namespace" -> text(metastore.fold(catalogName)(_.split(',').head.replace("thrift://", "hive://"))),
          "name" -> text(s"${table.namespace}.${table.name}"), "type" -> text("TABLE"))
        Map(s"${Prefix}namespace" -> namespace, s"${Prefix}name" -> name,
          s"${Prefix}facets.symlinks" -> obj("identifiers" -> arr(Seq(symlink))).toString)
    }

  /** Namespace and name of a dataset, by OpenLineage's naming convention. */
  def dataset(location: String): (String, String) = {
    val uri = new Path(location).toUri
    (uri.getScheme, uri.getAuthority) match {
      case (null | "file", _) => ("file", uri.getPath)
      case ("s3" | "s3a" | "s3n", bucket) => (s"s3://$bucket", uri.getPath.stripPrefix("/"))
      case (scheme, authority) => (s"$scheme://${Option(authority).getOrElse("")}", uri.getPath)
    }
  }
}
