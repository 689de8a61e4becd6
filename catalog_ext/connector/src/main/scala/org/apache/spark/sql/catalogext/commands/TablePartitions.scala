package org.apache.spark.sql.catalogext.commands

import java.time.Instant

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.{KeyZone, PartitionValues, TableMetadata}
import org.apache.spark.sql.catalogext.scan.{FilePaths, PartitionFilter, PredicateTranslator}
import org.apache.spark.sql.catalogext.service.{ArrowRows, Json, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/** One partition as `partitions/list` returns it. */
case class ListedPartition(
    name: String,
    values: InternalRow,
    location: Option[String],
    files: Long,
    bytes: Long,
    rows: Option[Long],
    createdMillis: Long)

/** One partition as statements show it. Directories with equal values (`k=1`, `k=01`) are one partition. */
case class PartitionDescription(
    name: String, location: String, created: Instant, files: Long, bytes: Long, rows: Option[Long]) {

  /**
   * The partition's location and numbers as properties, which Spark's own DESCRIBE PARTITION shows in a session without
   * this connector's extensions.
   */
  def properties: Map[String, String] = Map(
    "location" -> location,
    "partition" -> name,
    "files" -> files.toString,
    "bytes" -> bytes.toString,
    "created" -> created.toString) ++ rows.map("rows" -> _.toString)
}

/** The partitions of a table or view at its version, for commands that show them. */
class TablePartitions(client: ServiceClient, table: TableMetadata) {
  private val zone = KeyZone.of(table, SQLConf.get)

  val schema: StructType = StructType(table.partitionColumns.map { key =>
    StructField(key.name, CharVarcharUtils.replaceCharVarcharWithString(key.dataType))
  })

  /** The partitions whose columns `names` have the values in the row `ident`, ordered by typed values, NULL first. */
  def matching(names: Seq[String], ident: InternalRow): Seq[ListedPartition] =
    list(Nil, PartitionFilter.equalities(schema, names, ident))

  /** The directories of the partition that a complete spec names. If it is missing, the service returns an error. */
  def of(spec: Map[String, String]): Seq[ListedPartition] = list(Nil, Nil, spec = Json.map(spec))

  /**
   * The partitions that match the filters and, if there are any, one of the clauses, ordered by typed values. With a
   * limit, the listing stops as soon as enough are found. TIMESTAMP values of the clauses are local times of
   * `clauseZone`.
   */
  def list(
      clauses: Seq[Seq[KeyComparison]],
      filters: Seq[Expression] = Nil,
      limit: Option[Int] = None,
      spec: JsonNode = Null,
      clauseZone: String = SQLConf.get.sessionLocalTimeZone): Seq[ListedPartition] = {
    val columns = schema.fieldNames.map(name => name -> name).toMap
    val chars = PredicateTranslator.chars(table.partitionColumns)
    val predicate = new PredicateTranslator(columns, DateTimeUtils.getZoneId(zone), chars).translate(filters)
    val request = obj(Seq(
      "table_id" -> long(table.tableId), "version" -> long(table.version), "predicate" -> predicate.getOrElse(Null),
      "spec" -> spec) ++ PartitionClauses.fields(clauses, clauseZone): _*)
    val values = new PartitionValues(table.partitionColumns, zone)
    val filter = new PartitionFilter(schema, filters)
    ServiceException.translating(client.stream("partitions/list", request) { input =>
      val rows = ArrayBuffer.empty[ListedPartition]
      ArrowRows.foreachBatchWhile(input) { batch =>
        rows ++= read(batch, values).filter(partition => filter.matches(partition.values))
        limit.forall(rows.length < _)
      }
      limit.fold(rows)(rows.take).toSeq
    })
  }

  /** The partition with these values; None if it does not exist. */
  def described(names: Seq[String], ident: InternalRow): Option[PartitionDescription] =
    Option(matching(names, ident)).filter(_.nonEmpty).map(describe)

  /** The description of one partition from its directories (`k=1` and `k=01` are one partition). */
  def describe(found: Seq[ListedPartition]): PartitionDescription = {
    val rows = found.map(_.rows)
    PartitionDescription(
      name = found.map(_.name).mkString(", "),
      location = found.map(p => p.location.getOrElse(FilePaths.join(table.location, p.name))).mkString(", "),
      created = Instant.ofEpochMilli(found.map(_.createdMillis).min),
      files = found.map(_.files).sum,
      bytes = found.map(_.bytes).sum,
      rows = Option.unless(rows.contains(None))(rows.flatten.sum))
  }

  private def read(batch: VectorSchemaRoot, values: PartitionValues): Seq[ListedPartition] = {
    def texts(name: String) = batch.getVector(name).asInstanceOf[VarCharVector]
    def numbers(name: String) = batch.getVector(name).asInstanceOf[BigIntVector]
    val (names, locations) = (texts("partition"), texts("location"))
    val (files, bytes, rows, created) = (numbers("files"), numbers("bytes"), numbers("rows"), numbers("created_ms"))
    (0 until batch.getRowCount).map { i =>
      val name = names.getObject(i).toString
      ListedPartition(
        name,
        values.parse(name),
        Option(locations.getObject(i)).map(_.toString),
        files.get(i),
        bytes.get(i),
        Option.when(!rows.isNull(i))(rows.get(i)),
        created.get(i))
    }
  }
}
