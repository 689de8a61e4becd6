package org.apache.spark.sql.catalogext.commands

import scala.collection.mutable.ArrayBuffer

import org.apache.arrow.vector.{BigIntVector, VarCharVector, VectorSchemaRoot}

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.scan.{PartitionFilter, PartitionValues, PredicateTranslator}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/** One row of `partitions/list`. */
case class ListedPartition(
    name: String,
    values: InternalRow,
    location: Option[String],
    files: Long,
    bytes: Long,
    rows: Option[Long],
    createdMillis: Long)

/** The partitions of a table at its version, for the commands that show them. */
class TablePartitions(client: ServiceClient, table: TableMetadata) {
  private val zone = SQLConf.get.sessionLocalTimeZone

  val schema: StructType = StructType(table.partitionColumns.map { key =>
    StructField(key.name, CharVarcharUtils.replaceCharVarcharWithString(key.dataType))
  })

  /** Those whose `names` have the values of `ident`, in the order of the typed values, NULL first. */
  def matching(names: Seq[String], ident: InternalRow): Seq[ListedPartition] =
    list(PartitionFilter.equalities(schema, names, ident), None)

  /** Those that the filters leave, in that order; with a limit, the listing is read no further than that needs. */
  def list(filters: Seq[Expression], limit: Option[Int]): Seq[ListedPartition] = {
    val columns = schema.fieldNames.map(name => name -> name).toMap
    val predicate = new PredicateTranslator(columns, java.time.ZoneId.of(zone)).translate(filters)
    val request = obj(
      "table_id" -> long(table.tableId), "version" -> long(table.version), "predicate" -> predicate.getOrElse(Null))
    val rows = ArrayBuffer.empty[ListedPartition]
    val values = new PartitionValues(schema, zone)
    val filter = new PartitionFilter(schema, filters)
    ServiceException.translating {
      client.stream("partitions/list", request)(input => ArrowRows.foreachBatchWhile(input) { batch =>
        rows ++= read(batch, values).filter(partition => filter.matches(partition.values))
        limit.forall(rows.length < _)
      })
    }
    limit.fold(rows)(rows.take).toSeq
  }

  /** What DESCRIBE PARTITION shows. Directories of equal values (`k=1`, `k=01`) are shown as one partition. */
  def describe(ident: InternalRow): Map[String, String] = {
    val found = matching(schema.fieldNames.toSeq, ident)
    val locations = found.map(partition => partition.location.getOrElse(s"${table.location}/${partition.name}"))
    val rows = found.map(_.rows)
    Map(
      "location" -> locations.mkString(", "),
      "partition" -> found.map(_.name).mkString(", "),
      "files" -> found.map(_.files).sum.toString,
      "bytes" -> found.map(_.bytes).sum.toString,
      "created" -> found.map(_.createdMillis).minOption.fold("")(java.time.Instant.ofEpochMilli(_).toString)) ++
      Option.when(!rows.contains(None))("rows" -> rows.flatten.sum.toString)
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
