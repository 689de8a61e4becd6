package org.apache.spark.sql.catalogext.paths

import java.time.ZoneId

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{CatalogOptions, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{DirectoryFiles, PackedFiles, PackedFilesBuilder, PlannedFileIndex,
  PlannedFileRows, PredicateTranslator, ScanChoice, SharedFiles, TextBuffer}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Cast, Expression, IsNotNull}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
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
  extends PlannedFileIndex(spark, client, catalogName, table, partitionSchema, options, new SharedFiles) {

  private val names = table.partitionColumns.fieldNames.toSeq
  private var executors = Set.empty[String]
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
      s"${static.choice.files} files, ${static.choice.bytes} bytes"
    } else "left to a join"
    val listedBy = if (executors.isEmpty) "service" else s"executors ${executors.toSeq.sorted.mkString(", ")}"
    Map("Path" -> table.name, "FilesChosen" -> chosen, "ListedBy" -> listedBy)
  }

  override protected def planned(filters: Seq[Expression]): PackedFiles = {
    val (found, unlisted, first) = ServiceException.translating {
      client.stream("paths/plan", request(named(filters))) { input =>
        val found = new PackedFilesBuilder(choosing(filters))
        var first: Option[String] = None
        val rows = new PlannedFileRows({ directory =>
          if (first.isEmpty) first = Some(directory.status(0, directory.directory(table.location)).getPath.getParent.toString)
          found.add(directory)
        })
        val unlisted = ArrayBuffer.empty[LeftDirectory]
        ArrowRows.foreachBatch(input) { batch =>
          val expressions = batch.getVector("expression")
          val files = (0 until batch.getRowCount).takeWhile(expressions.isNull).length
          rows.add(batch, files)
          unlisted ++= LeftDirectory.read(batch, files)
        }
        rows.finish()
        (found, unlisted.toSeq, first)
      }
    }
    if (unlisted.nonEmpty) addListed(unlisted, named(filters), first, found)
    found.result()
  }

  private def request(filters: Seq[Expression]): ObjectNode = {
    val casts = new KeyCasts(partitionSchema.fieldNames.zip(names).toMap)
    val predicate = casts.translate(filters, DateTimeUtils.getZoneId(zone))
    obj(
      "path" -> text(table.name),
      "partitioning" -> bool(partitioning),
      "keys" -> arr(names.map(text(_: String))),
      "casts" -> arr(casts.used),
      "predicate" -> predicate.getOrElse(Null),
      "settings" -> AdHocFileIndex.settings(catalogName, options, spark.sessionState.conf))
  }

  /** Adds the files that the executors find in the directories that the service has left; it has found files in `known`. */
  private def addListed(
      left: Seq[LeftDirectory],
      filters: Seq[Expression],
      known: Option[String],
      found: PackedFilesBuilder): Unit = {
    val listed = new AdHocListing(spark, table.name, DirectoryPruner(names, partitionSchema, filters)).list(left)
    executors = listed.map(_.executor).toSet
    val byDirectory = listed.flatMap(_.files).distinct.groupBy(_.directory).toSeq.sortBy(_._1)
    val partitions = partitionsOf(byDirectory.map(_._1), listed, known)
    val directory = new DirectoryFiles
    val path = new TextBuffer
    byDirectory.zip(partitions).foreach { case ((place, files), name) =>
      directory.name.set(name)
      directory.isElsewhere = true
      directory.location.set(place)
      directory.begin()
      files.sortBy(_.name).foreach { file =>
        path.set(file.name)
        directory.add(path, file.size, file.modifiedMs, rows = -1)
      }
      found.add(directory)
    }
  }

  /**
   * The names of the directories' partitions. The service makes them, and says what is missing of the path.
   *
   * @param known a directory whose files the service has found: all have to agree with it on the keys
   */
  private def partitionsOf(directories: Seq[String], listed: Seq[ListedDirectory], known: Option[String]): Seq[String] = {
    val awaited = listed.flatMap(_.of.alternative).distinct
    val found = listed.filter(each => each.files.nonEmpty || each.pruned).flatMap(_.of.alternative).distinct
    // Without keys no directory has a name to ask for.
    val asked = if (partitioning) directories else Nil
    val first = known.orElse(asked.headOption).filter(_ => partitioning).toSeq
    val batches = if (asked.isEmpty && awaited.nonEmpty) Iterator(Nil)
      else asked.grouped(AdHocFileIndex.DirectoriesPerRequest)
    val answered = batches.flatMap { batch =>
      val request = obj(
        "path" -> text(table.name), "partitioning" -> bool(partitioning), "keys" -> arr(names.map(text(_: String))),
        "directories" -> arr((first ++ batch).map(text(_: String))),
        "awaited" -> arr(awaited.map(text(_: String))), "found" -> arr(found.map(text(_: String))))
      val answer = ServiceException.translating(client.call("paths/listed", request, limited = false))
      answer.items("partitions").drop(first.length).map(_.asText())
    }.toVector
    if (partitioning) answered else directories.map(_ => "")
  }
}

private object AdHocFileIndex {
  val Threshold = "adhoc.distributed-listing-threshold"
  val DirectoriesPerRequest = 20000

  /** What the read and the session say of how many directories of one level the service lists itself. */
  def settings(catalog: String, options: CaseInsensitiveStringMap, conf: SQLConf): ObjectNode = obj(
    "options" -> map(Option(options.get(Threshold)).map(Threshold -> _)),
    "session" -> map(CatalogOptions.ofSession(catalog, conf).filter { case (key, _) => key.equalsIgnoreCase(Threshold) }))
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
