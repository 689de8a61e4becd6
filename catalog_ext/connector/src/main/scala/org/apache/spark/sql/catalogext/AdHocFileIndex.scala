package org.apache.spark.sql.catalogext

import java.time.ZoneId

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.Json._
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Cast, Expression, IsNotNull}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The files of a path, listed for one scan with its filters: what they rule out is not listed. */
class AdHocFileIndex(
    spark: SparkSession,
    client: ServiceClient,
    catalogName: String,
    table: TableMetadata,
    partitionSchema: StructType,
    options: CaseInsensitiveStringMap,
    partitioning: Boolean)
  extends PlannedFileIndex(spark, client, catalogName, table, partitionSchema, options) {

  private val zone = spark.sessionState.conf.sessionLocalTimeZone

  /**
   * Size and rows, which only a listing tells. With nothing but a join's IS NOT NULL pushed it waits for the filter that
   * the join will find: until then the path counts as large.
   */
  override def totals: (Long, Option[Long]) = synchronized {
    if (mayList) listedTotals else (spark.sessionState.conf.defaultSizeInBytes, None)
  }

  private def mayList: Boolean = isListed || pushed.isEmpty || !pushed.forall(_.isInstanceOf[IsNotNull])

  override def isRegistered: Boolean = false

  override def description(planned: Option[ScanChoice]): Map[String, String] = synchronized {
    val chosen = if (mayList) {
      val files = allFiles()
      s"${files.length} files, ${files.iterator.map(_.getLen).sum} bytes"
    } else "left to a join"
    Map("Path" -> table.name, "FilesChosen" -> chosen)
  }

  override protected def planned(filters: Seq[Expression]): Seq[PlannedPartition] = {
    val casts = new KeyCasts(partitionSchema.fieldNames.zip(table.partitionColumns.fieldNames).toMap)
    val predicate = casts.translate(filters, ZoneId.of(zone))
    val request = obj(
      "path" -> text(table.name),
      "partitioning" -> bool(partitioning),
      "keys" -> arr(table.partitionColumns.fieldNames.map(text(_: String))),
      "casts" -> arr(casts.used),
      "predicate" -> predicate.getOrElse(Null))
    val rows = new PlannedFileRows(table.location, new PartitionValues(partitionSchema, zone))
    ServiceException.translating {
      client.stream("paths/plan", request, limited = false)(input => ArrowRows.foreachBatch(input)(rows.add))
    }
    rows.result()
  }
}

/**
 * Keys of paths are strings, and Spark compares them with a number or a date by a cast of the key. Such a cast goes to
 * the service as a key of its own, so that it prunes as well.
 *
 * @param columns Spark's name of each key and the path's own spelling
 */
private class KeyCasts(columns: Map[String, String]) {
  private val found = ArrayBuffer.empty[(String, String, DataType)]

  def translate(filters: Seq[Expression], zone: ZoneId): Option[JsonNode] = {
    val replaced = filters.map(_.transform {
      case Cast(key: Attribute, to, _, _) if columns.contains(key.name) && isText(key) && KeyCasts.isExact(to) =>
        val name = s"${columns(key.name)} as ${to.catalogString}"
        found += ((name, columns(key.name), to))
        AttributeReference(name, to)()
    })
    new PredicateTranslator(columns ++ found.map { case (name, _, _) => name -> name }, zone).translate(replaced)
  }

  /** What the request says of the casts that the predicate may name. */
  def used: Seq[JsonNode] = found.distinct.toSeq.map { case (name, key, to) =>
    obj("name" -> text(name), "key" -> text(key), "type" -> text(to.catalogString))
  }

  private def isText(key: Attribute): Boolean = key.dataType match {
    case s: StringType => s.isUTF8BinaryCollation
    case _ => false
  }
}

private object KeyCasts {
  def isExact(to: DataType): Boolean = to match {
    case ByteType | ShortType | IntegerType | LongType | DateType => true
    case _ => false
  }
}
