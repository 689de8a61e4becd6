package org.apache.spark.sql.catalogext.metadata

import java.io.ByteArrayInputStream
import java.time.ZoneId

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.{BigIntVector, BitVector, FieldVector, TimeStampMilliTZVector, VarCharVector,
  VectorSchemaRoot}
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalogext.catalog.{KeyTypes, PartitionValues}
import org.apache.spark.sql.catalogext.release.FilteredBuilder
import org.apache.spark.sql.catalogext.scan.{FilePaths, PartitionFilter, PredicateTranslator}
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, PredicateJson, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.datasources.v2.PartitionReaderFromIterator
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Builds a scan of the metadata table `partitions` or `files`. The service applies filters on partition columns, sends
 * only the needed columns, and aggregates numbers.
 */
class MetadataScanBuilder(table: MetadataTable, zone: ZoneId)
  extends FilteredBuilder(SparkSession.active) with SupportsPushDownRequiredColumns with SupportsPushDownAggregates {

  private var required = table.schema
  private var predicate: Option[JsonNode] = None
  private var numbers: Option[JsonNode] = None
  private var groups: Option[MetadataGroups] = None

  private val ofNumbers = new PredicateTranslator(table.numbers.map(name => name -> name).toMap, zone)

  private val translator = {
    // The struct's name as a prefix distinguishes a key from a column of the metadata table with the same name.
    val fields = table.keys.fieldNames.map(key => s"${MetadataScan.OfStruct}$key" -> key)
    val columns = (fields ++ table.keyColumns.map(key => key.name -> key.name)).toMap
    new PredicateTranslator(columns, zone, PredicateTranslator.chars(table.of.partitionColumns))
  }

  override def pruneColumns(schema: StructType): Unit = required = schema

  /** Returns the filters that the service applies only in part; Spark evaluates them again. */
  override def pushFilters(filters: Seq[Expression]): Seq[Expression] = {
    predicate = translator.translate(filters.flatMap(overKeys))
    numbers = ofNumbers.translate(filters)
    filters.filterNot(filter => isExact(filter) || ofNumbers.exactly(filter).isDefined)
  }

  private def overKeys(filter: Expression): Seq[Expression] = filter match {
    case EqualTo(a: Attribute, Literal(name: UTF8String, _)) if a.name == "partition" =>
      PartitionFilter.ofName(table.of.partitionColumns, zone.getId, name.toString).map(_.transform {
        case key: AttributeReference => ofStruct(key.name)
      })
    case other => Seq(overStruct(other))
  }

  private def overStruct(filter: Expression): Expression = filter.transform {
    // Take the field's declared name, because the query may spell it in another case.
    case field @ GetStructField(a: Attribute, ordinal, _) if table.values.contains(a.name) =>
      ofStruct(field.childSchema(ordinal).name)
  }

  /** Whether the service evaluates a filter as Spark does, for all possible values. */
  private def isExact(filter: Expression): Boolean = {
    val ofKeys = overStruct(filter)
    translator.exactly(ofKeys).isDefined && ofKeys.references.forall { a =>
      table.of.partitionColumns.find(_.name == a.name.stripPrefix(MetadataScan.OfStruct)).exists(MetadataScan.isPlain)
    }
  }

  private def ofStruct(key: String): Expression =
    AttributeReference(s"${MetadataScan.OfStruct}$key", table.keys(key).dataType)()

  override def pushedFilters: Array[Predicate] = Array.empty

  /**
   * Accepts the aggregation if the service can evaluate it. Spark pushes it only if no filter is left. Spark merges the
   * groups, so the service may send a group in several parts.
   */
  override def pushAggregation(aggregation: Aggregation): Boolean = {
    // A metadata table without numbers is not grouped by the service.
    groups = if (table.numbers.isEmpty) None else MetadataGroups.of(table, aggregation)
    groups.isDefined
  }

  override def build(): Scan = groups match {
    case Some(found) => new MetadataScan(table, found.schema, predicate, numbers, Some(found), zone)
    case None => new MetadataScan(table, required, predicate, numbers, None, zone)
  }
}

/**
 * A scan of a metadata table: the service's batches, each of which is a task. The driver keeps the batches serialized,
 * with the columns that the query needs.
 */
class MetadataScan(
    table: MetadataTable,
    required: StructType,
    predicate: Option[JsonNode],
    numbers: Option[JsonNode],
    groups: Option[MetadataGroups],
    zone: ZoneId)
  extends Scan with Batch {

  private val decoder = groups match {
    case Some(found) =>
      MetadataRows(required, table.of.partitionColumns, found.sent, Set.empty, Set.empty, zone.getId, found.keyOf)
    case None =>
      val sent = table.schema.fieldNames.toSet -- table.values
      MetadataRows(required, table.of.partitionColumns, sent, table.locations, table.filePaths, zone.getId)
  }

  override def readSchema(): StructType = required
  override def description(): String =
    table.name() + (if (table.of.pinned) s" VERSION AS OF ${table.of.version}" else "") +
      MetadataScan.shown(predicate.toSeq ++ numbers) + groups.fold("")(found => s" ${found.description}")
  override def toBatch: Batch = this
  override def createReaderFactory(): PartitionReaderFactory = new MetadataReaderFactory(decoder)
  override def planInputPartitions(): Array[InputPartition] = fetched

  private lazy val fetched: Array[InputPartition] = {
    val request = groups match {
      case Some(found) => table.request(predicate, numbers, groups = found.json)
      case None => table.request(predicate, numbers, arr(decoder.sources.map(text(_: String))))
    }
    ServiceException.translating {
      table.client.stream("tables/metadata", request) { input =>
        val found = ArrayBuffer.empty[InputPartition]
        ArrowRows.foreachBatch(input) { batch =>
          if (batch.getRowCount > 0) {
            found += MetadataBatch(ArrowRows.packed(batch, decoder.sources), batch.getRowCount)
          }
        }
        found.toArray
      }
    }
  }
}

private object MetadataScan {
  /** Distinguishes a field of the struct from a column of the same name. */
  // A column can be named "values.k", but not with the character NUL.
  val OfStruct = "\u0000values."

  /** The conjunction of predicates as text, in the format of Spark's scans. */
  private def shown(predicates: Seq[JsonNode]): String = {
    val parts = predicates.flatMap(p => if (p.string("op") == "and") p.items("args") else Seq(p))
    if (parts.isEmpty) "" else parts.map(PredicateJson.sql).mkString(" PushedFilters: [", ", ", "]")
  }

  /**
   * Whether two values of the key are equal in the index exactly if they are equal in Spark. Not so for types with
   * -0.0, and for strings with trailing blanks.
   */
  def isPlain(key: StructField): Boolean = KeyTypes.isExact(key.dataType)
}

/**
 * A batch of rows as an Arrow stream. If the query needs no column, the stream is empty, and `count` is the number of
 * rows.
 */
case class MetadataBatch(packed: Array[Byte], count: Int) extends InputPartition

class MetadataReaderFactory(decoder: MetadataRows) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReaderFromIterator(decoder.read(partition.asInstanceOf[MetadataBatch]))
}

/**
 * Converts the service's rows to Spark's rows, on the executors.
 *
 * @param keys the partition columns, with the table's own types
 * @param sent the columns that the service's rows have; all others are computed from the partition's name
 * @param locations those sent columns that have locations as on the store, like the column `$path`
 * @param filePaths those sent columns that have file paths in the form of Spark's `_metadata.file_path`
 * @param keyOf the partition column for each required column that has another name
 */
case class MetadataRows(
    required: StructType,
    keys: StructType,
    sent: Set[String],
    locations: Set[String],
    filePaths: Set[String],
    zone: String,
    keyOf: Map[String, String] = Map.empty) {
  import MetadataRows._

  private val ofPartition = required.fieldNames.map(!sent.contains(_))

  /** The service's columns that are needed for the required ones. */
  def sources: Seq[String] = required.fieldNames.zip(ofPartition)
    .map { case (name, derived) => if (derived) Partition else name }.distinct.toSeq

  def read(batch: MetadataBatch): Iterator[InternalRow] =
    if (required.isEmpty) Iterator.fill(batch.count)(InternalRow.empty)
    else {
      val rows = ArrayBuffer.empty[InternalRow]
      ArrowRows.foreachBatch(new ByteArrayInputStream(batch.packed))(rows ++= decoded(_))
      rows.iterator
    }

  private def decoded(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val values = new PartitionValues(keys, zone)
    val columns = required.fields.zip(ofPartition).map {
      case (field, true) => ofName(field, batch.getVector(Partition), values)
      case (field, false) => column(field, batch.getVector(field.name))
    }
    (0 until batch.getRowCount).map(i => InternalRow.fromSeq(columns.map(_(i)).toSeq))
  }

  private def ofName(field: StructField, names: FieldVector, values: PartitionValues): Int => Any = {
    def parsed(i: Int) = values.parse(names.getObject(i).toString)
    field.dataType match {
      case struct: StructType =>
        // Convert only the fields that the query needs.
        val positions = struct.map(key => (keys.fieldIndex(key.name), key.dataType))
        i => {
          val row = parsed(i)
          InternalRow.fromSeq(positions.map { case (at, dataType) => row.get(at, dataType) })
        }
      case dataType =>
        val at = keys.fieldIndex(keyOf.getOrElse(field.name, field.name))
        i => parsed(i).get(at, dataType)
    }
  }

  private def column(field: StructField, vector: FieldVector): Int => Any = field.dataType match {
    case MapType(_, statistics: StructType, _) => i => if (vector.isNull(i)) null else parsed(statistics, vector, i)
    case _ if filePaths.contains(field.name) =>
      i => UTF8String.fromString(FilePaths.inMetadataColumn(new Path(vector.getObject(i).toString)))
    case _ if locations.contains(field.name) =>
      i => UTF8String.fromString(new Path(vector.getObject(i).toString).toString)
    case _ => i => value(vector, i)
  }
}

object MetadataRows {
  private val Partition = "partition"

  private def parsed(statistics: StructType, vector: FieldVector, i: Int): ArrayBasedMapData = {
    val columns = mapper.readTree(vector.getObject(i).toString).properties().asScala.toSeq
    ArrayBasedMapData(
      columns.map(entry => UTF8String.fromString(entry.getKey): Any).toArray,
      columns.map(entry => InternalRow.fromSeq(statistics.map(field => statistic(field, entry.getValue))): Any).toArray)
  }

  private def statistic(field: StructField, of: JsonNode): Any = Option(of.get(field.name)).filterNot(_.isNull).map {
    node => if (field.dataType == LongType) node.asLong() else UTF8String.fromString(node.asText())
  }.orNull

  /** Converts one value of the service to Spark's form. */
  def value(vector: FieldVector, i: Int): Any = if (vector.isNull(i)) null else vector match {
    case numbers: BigIntVector => numbers.get(i)
    case times: TimeStampMilliTZVector => times.get(i) * 1000
    case texts: VarCharVector => UTF8String.fromBytes(texts.get(i))
    case flags: BitVector => flags.get(i) == 1
    case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"The column ${other.getName} of a metadata table came as ${other.getField.getType}: the service and the " +
        "connector are of different releases.")
  }
}
