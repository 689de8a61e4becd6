package org.apache.spark.sql.catalogext.write

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.commands.PartitionDeletion
import org.apache.spark.sql.connector.expressions.filter.{Predicate => V2Predicate}
import org.apache.spark.sql.connector.write._

/**
 * Builds a write of a table that exists or, with a definition in the target, of one that the write creates.
 *
 * Nothing is begun before the job starts: EXPLAIN builds writes too.
 */
class CatalogExtWriteBuilder(spark: SparkSession, target: WriteTarget, info: LogicalWriteInfo)
  extends WriteBuilder with SupportsOverwriteV2 with SupportsDynamicOverwrite {

  private val settings =
    new WriteSettings(target.client, target.catalogName, target.metadata, info.options(), spark.sessionState.conf)
  private var chosen = target

  // Spark's own refusal, after a false canOverwrite, does not say what can be done.
  override def overwrite(predicates: Array[V2Predicate]): WriteBuilder =
    changeTo(WriteKind.Overwrite, exact(predicates).getOrElse(
      throw PartitionDeletion.notOfPartitions(target.metadata, predicates.mkString(" AND "))))

  override def truncate(): WriteBuilder = changeTo(WriteKind.Overwrite, None)

  override def overwriteDynamicPartitions(): WriteBuilder =
    // Without keys there is one partition, the table.
    if (target.metadata.partitionColumns.isEmpty) truncate() else changeTo(WriteKind.OverwritePartitions, None)

  /** A table that the write creates has nothing to overwrite. */
  private def changeTo(kind: WriteKind, predicate: Option[JsonNode]): WriteBuilder = {
    if (!target.creates) chosen = target.copy(kind = kind, predicate = predicate)
    this
  }

  private def exact(predicates: Array[V2Predicate]): Option[Option[JsonNode]] =
    WritePredicate.exact(target.metadata, predicates.toSeq, settings.zone)

  override def build(): Write = new CatalogExtWrite(spark, chosen, settings, info)
}
