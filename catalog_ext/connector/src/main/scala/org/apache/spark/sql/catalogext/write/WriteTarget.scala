package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.catalog.{CatalogExtTable, TableMetadata}
import org.apache.spark.sql.catalogext.commands.{KeyComparison, PartitionClauses}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, LogicalWriteInfoImpl}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * What a write is to do, apart from its rows.
 *
 * @param metadata the table when the statement was analysed; of a creation, what the definition says
 * @param kind of the contract's `writes/begin`; overwrites change `append` to what they mean
 * @param operation the word for the history; what the kind is called where nothing is given
 * @param definition of a creation: the fields of `tables/create`
 * @param staticKeys how many leading partition columns have one value for all rows
 * @param keep the canonical name of the fully static partition that stays registered also without rows
 * @param clauses the PARTITION clause of an INSERT, as far as it gives constants
 * @param base the lowest version at which the statement reads the table; None where it does not
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

  /** Whether it writes `table`; what it creates has a name and no number yet. */
  def isOf(table: CatalogExtTable): Boolean = table.client.uri == client.uri && {
    // Numbers and names of tables are those of one index.
    val written = table.metadata
    if (creates) written.qualifiedName == metadata.qualifiedName && written.tableId >= 0
    else written.tableId == metadata.tableId
  }

  /** Whether all rows go to one directory, as far as is known before there are rows. */
  def onePartition: Boolean = metadata.partitionColumns.length <= staticKeys
}

/** A version of the table of a number. */
case class BaseVersion(tableId: Long, version: Long)

/** The kinds of `writes/begin`, with the word for the history. */
sealed abstract class SparkWriteKind(val name: String, val operation: String)

object SparkWriteKind {
  case object Append extends SparkWriteKind("append", "INSERT")
  case object OverwritePartitions extends SparkWriteKind("overwrite_partitions", "INSERT OVERWRITE")
  case object Overwrite extends SparkWriteKind("overwrite", "INSERT OVERWRITE")
  case object Create extends SparkWriteKind("create", "CTAS")
  case object Replace extends SparkWriteKind("replace", "RTAS")
  case object CreateOrReplace extends SparkWriteKind("create_or_replace", "RTAS")
}

/** A batch of an application: committed at most once. */
case class ApplicationBatch(id: String, version: Long)

/**
 * What the analysis of an INSERT finds out and the writer has to know; it travels among the write's options.
 *
 * @param operation the word for the history, where it is not the kind's own
 * @param staticKeys how many leading partition columns have one value for all rows
 * @param keep the canonical name of the fully static partition that stays registered also without rows
 * @param constants the static partition columns with their values as the statement has them; the service checks them
 */
case class WriteMarks(
    operation: Option[String] = None,
    staticKeys: Int = 0,
    keep: Option[String] = None,
    constants: Map[String, String] = Map.empty) {
  import WriteMarks._

  def toOptions: Map[String, String] =
    Map(StaticKeys -> staticKeys.toString, Constants -> InsertMarks.write(constants)) ++
      operation.map(Operation -> _) ++ keep.map(Keep -> _)

  def clauses: Seq[Seq[KeyComparison]] = Option.when(constants.nonEmpty)(PartitionClauses.equalities(constants)).toSeq
}

object WriteMarks {
  private val Prefix = "__catalog-ext."
  private val Operation = s"${Prefix}operation"
  private val StaticKeys = s"${Prefix}static-keys"
  private val Keep = s"${Prefix}keep"
  private val Constants = s"${Prefix}constants"

  /** The static partition columns of an INSERT with their values, as JSON, before the table is known. */
  val Specification: String = s"${Prefix}specification"

  def of(options: CaseInsensitiveStringMap): WriteMarks = WriteMarks(
    Option(options.get(Operation)), options.getInt(StaticKeys, 0), Option(options.get(Keep)),
    Option(options.get(Constants)).fold(Map.empty[String, String])(InsertMarks.read))

  /** Whether the analysis of this write is over. */
  def decided(options: Map[String, String]): Boolean = options.contains(StaticKeys)

  /** The write as the user asked for it. */
  def without(info: LogicalWriteInfo): LogicalWriteInfo = LogicalWriteInfoImpl(
    info.queryId(), info.schema(), without(info.options()), info.rowIdSchema(), info.metadataSchema())

  def without(options: CaseInsensitiveStringMap): CaseInsensitiveStringMap = new CaseInsensitiveStringMap(
    options.asCaseSensitiveMap().asScala.filterNot { case (key, _) => key.startsWith(Prefix) }.asJava)
}
