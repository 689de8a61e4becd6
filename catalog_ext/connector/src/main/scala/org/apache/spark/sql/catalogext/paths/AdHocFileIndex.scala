package org.apache.spark.sql.catalogext.paths

import java.time.ZoneId

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.scan.{ChosenFiles, PlannedFileIndex, PlannedFiles, PredicateTranslator, ScanChoice,
  SharedFiles}
import org.apache.spark.sql.catalogext.service.{ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Cast, Expression, IsNotNull}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The files of a path, listed for one scan. Directories that the scan's filters exclude are not listed. */
class AdHocFileIndex(
    spark: SparkSession,
    client: ServiceClient,
    catalogName: String,
    table: TableMetadata,
    partitionSchema: StructType,
    options: CaseInsensitiveStringMap,
    partitioning: Boolean)
  extends PlannedFileIndex(spark, client, catalogName, table, partitionSchema, options, new SharedFiles) {

  private val names = table.partitionColumns.fieldNames.toSeq
  private val zone = spark.sessionState.conf.sessionLocalTimeZone

  /**
   * Total size and row count of the files, for which they must be listed. If a join has pushed only IS NOT NULL filters
   * so far, the listing waits for the filter that the join finds at run time; until then the path counts as large.
   */
  override def totals: (Long, Option[Long]) = synchronized {
    if (mayList) listedTotals else (spark.sessionState.conf.defaultSizeInBytes, None)
  }

  private def mayList: Boolean = isListed || pushed.isEmpty || !pushed.forall(_.isInstanceOf[IsNotNull])

  override def isRegistered: Boolean = false

  override def description(planned: Option[ScanChoice]): Map[String, String] = synchronized {
    val chosen = if (mayList) {
      s"${static.choice.files} files, ${static.choice.bytes} bytes"
    } else "left to a join"
    Map("Path" -> table.name, "FilesChosen" -> chosen)
  }

  override protected def planned(filters: Seq[Expression]): ChosenFiles = ServiceException.translating(
    client.stream("paths/plan", request(named(filters)))(PlannedFiles.read(_, choosing(filters))))

  private def request(filters: Seq[Expression]): ObjectNode = {
    val casts = new KeyCasts(partitionSchema.fieldNames.zip(names).toMap)
    val predicate = casts.translate(filters, DateTimeUtils.getZoneId(zone))
    obj(
      "path" -> text(table.name),
      "partitioning" -> bool(partitioning),
      "keys" -> arr(names.map(text(_: String))),
      "casts" -> arr(casts.used),
      "predicate" -> predicate.getOrElse(Null))
  }
}

/**
 * Keys in paths are strings, and Spark casts a key to compare it with a number or a date. Such a cast is sent to the
 * service as a derived key, so that it prunes directories too.
 *
 * @param columns Spark's name of each key, and its spelling in the path
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

  /** The field of the request that describes the casts of keys which the predicate uses. */
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
