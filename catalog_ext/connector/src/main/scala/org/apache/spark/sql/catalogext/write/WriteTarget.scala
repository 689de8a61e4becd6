package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, TableMetadata}
import org.apache.spark.sql.catalogext.commands.{KeyComparison, PartitionClauses}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, LogicalWriteInfoImpl}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The description of a write, without its rows.
 *
 * @param metadata the table when the statement was analyzed; for a table to be created, its definition
 * @param kind the kind of the write for `writes/begin`; an overwrite replaces the kind `append`
 * @param operation the name in the history; None for the name of the kind
 * @param definition for a table to be created: the fields of `tables/create`
 * @param staticKeys number of leading partition columns with one value for all rows
 * @param keep the canonical name of the fully static partition that stays registered even without rows
 * @param clauses the constants of an INSERT's PARTITION clause, as in the names of the rows' partitions
 * @param base the lowest version at which the statement reads the table, or has looked for a partition of IF NOT EXISTS;
 *             None if it does neither
 */
case class WriteTarget(
    client: ServiceClient,
    catalogName: String,
    metadata: TableMetadata,
    kind: SparkWriteKind = SparkWriteKind.Append,
    operation: Option[String] = None,
    predicate: Option[JsonNode] = None,
    definition: Option[JsonNode] = None,
    staticKeys: Int = 0,
    keep: Option[String] = None,
    clauses: Seq[Seq[KeyComparison]] = Nil,
    base: Option[BaseVersion] = None) {

  def tableName: String = s"$catalogName.${metadata.qualifiedName}"
  def creates: Boolean = definition.isDefined

  /** Whether the write's target is `table`. A table to be created has a name but no id yet. */
  def isOf(table: CatalogExtTable): Boolean = table.client.uri == client.uri && {
    // Compare the service's address too, because ids and names of tables are unique within one index only.
    val written = table.metadata
    if (creates) written.qualifiedName == metadata.qualifiedName && written.tableId >= 0
    else written.tableId == metadata.tableId
  }

  /** Whether it is known before the rows are computed that all of them go to one partition. */
  def onePartition: Boolean = metadata.partitionColumns.length <= staticKeys
}

/** A version of the table with this id. */
case class BaseVersion(tableId: Long, version: Long) {
  def toText: String = s"$tableId:$version"
}

object BaseVersion {
  /** The version with this `toText`. */
  def of(text: String): BaseVersion = text.split(':') match {
    case Array(tableId, version) => BaseVersion(tableId.toLong, version.toLong)
  }
}

/** The kinds of `writes/begin`, each with its name in the history. */
sealed abstract class SparkWriteKind(val name: String, val operation: String)

object SparkWriteKind {
  case object Append extends SparkWriteKind("append", "INSERT")
  case object OverwritePartitions extends SparkWriteKind("overwrite_partitions", "INSERT OVERWRITE")
  case object Overwrite extends SparkWriteKind("overwrite", "INSERT OVERWRITE")
  case object Create extends SparkWriteKind("create", "CTAS")
  case object Replace extends SparkWriteKind("replace", "RTAS")
  case object CreateOrReplace extends SparkWriteKind("create_or_replace", "RTAS")
}

/** A numbered batch of an application, which is committed at most once. */
case class ApplicationBatch(id: String, version: Long)

/**
 * What the analysis of an INSERT has found and the writer needs; it is passed in the write's options.
 *
 * @param operation the name in the history if it is not the name of the kind
 * @param staticKeys number of leading partition columns with one value for all rows
 * @param keep the canonical name of the fully static partition that stays registered even without rows
 * @param constants the static partition columns with their values, as in the names of the rows' partitions; the service
 *                  checks them
 * @param base the version in which IF NOT EXISTS has not found the partition
 */
case class WriteMarks(
    operation: Option[String] = None,
    staticKeys: Int = 0,
    keep: Option[String] = None,
    constants: Map[String, String] = Map.empty,
    base: Option[BaseVersion] = None) {
  import WriteMarks._

  def toOptions: Map[String, String] =
    Map(StaticKeys -> staticKeys.toString, Constants -> InsertMarks.write(constants)) ++
      operation.map(Operation -> _) ++ keep.map(Keep -> _) ++ base.map(Base -> _.toText)

  def clauses: Seq[Seq[KeyComparison]] = Option.when(constants.nonEmpty)(PartitionClauses.equalities(constants)).toSeq
}

object WriteMarks {
  private val Prefix = "__catalog-ext."
  private val Operation = s"${Prefix}operation"
  private val StaticKeys = s"${Prefix}static-keys"
  private val Keep = s"${Prefix}keep"
  private val Constants = s"${Prefix}constants"
  /** The option that holds the version in which IF NOT EXISTS has not found the partition. */
  val Base: String = s"${Prefix}base"

  /**
   * The option that holds an INSERT's static partition columns and their values, as JSON, until the table is resolved.
   */
  val Specification: String = s"${Prefix}specification"

  def of(options: CaseInsensitiveStringMap): WriteMarks = WriteMarks(
    Option(options.get(Operation)), options.getInt(StaticKeys, 0), Option(options.get(Keep)),
    Option(options.get(Constants)).fold(Map.empty[String, String])(InsertMarks.read),
    Option(options.get(Base)).map(BaseVersion.of))

  /** Whether the options of a write contain the result of its analysis. */
  def decided(options: Map[String, String]): Boolean = options.contains(StaticKeys)

  /** The write's description with the user's own options only. */
  def without(info: LogicalWriteInfo): LogicalWriteInfo = LogicalWriteInfoImpl(
    info.queryId(), info.schema(), without(info.options()), info.rowIdSchema(), info.metadataSchema())

  def without(options: CaseInsensitiveStringMap): CaseInsensitiveStringMap = new CaseInsensitiveStringMap(
    options.asCaseSensitiveMap().asScala.filterNot { case (key, _) => key.startsWith(Prefix) }.asJava)
}
