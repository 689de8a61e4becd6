package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalogext.commands.{KeyComparison, PartitionClauses}
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, LogicalWriteInfoImpl}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

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
