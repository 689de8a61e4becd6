package org.apache.spark.sql.catalogext.commands

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.arrow.vector.VectorSchemaRoot

import org.apache.spark.sql.catalogext.catalog.TableMetadata
import org.apache.spark.sql.catalogext.parser.SqlText
import org.apache.spark.sql.catalogext.service.{ArrowRows, ConnectorErrors, Json, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalogext.session.CachedPlans
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter, UnboundProcedure}
import org.apache.spark.sql.connector.read.{LocalScan, Scan}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/** The service's procedures, in the namespace `system`. */
class ProcedureOperations(catalogName: String, client: ServiceClient) {
  import ProcedureOperations.Namespace

  def list(namespace: Array[String]): Array[Identifier] =
    signatures(namespace).map(signature => Identifier.of(Namespace, signature.name)).toArray

  def signatures(namespace: Array[String]): Seq[ProcedureSignature] =
    if (namespace.isEmpty || namespace.sameElements(Namespace)) {
      described().map { node =>
        val procedure = new ServiceProcedure(catalogName, client, node)
        ProcedureSignature(procedure.name(), procedure.signature, procedure.description())
      }
    } else Nil

  /** The service has the error for an unknown name, with a suggestion. */
  def load(ident: Identifier): UnboundProcedure =
    if (!ident.namespace().sameElements(Namespace)) throw ConnectorErrors.analysis(ConnectorErrors.ProcedureNotFound,
      s"There is no procedure $catalogName.$ident: all procedures are in the namespace 'system'. SHOW PROCEDURES IN " +
        s"$catalogName.system lists them.")
    else LoadedProcedure(new ServiceProcedure(catalogName, client, described(Some(ident.name())).head))

  /** Calls a procedure with string arguments, for SQL commands that are implemented by one. */
  def call(name: String, arguments: (String, String)*): Seq[InternalRow] = {
    val rows = ArrayBuffer.empty[InternalRow]
    ProcedureOperations.call(client, catalogName, name, map(arguments))(rows ++= ProcedureOperations.rows(_))
    rows.toSeq
  }

  private def described(name: Option[String] = None): Seq[JsonNode] =
    ServiceException.translating(client.call("procedures/list",
      obj("procedure" -> text(name), "catalog" -> text(catalogName))).items("procedures"))
}

/** A row of SHOW PROCEDURES; `parameters` has the syntax of a SQL declaration. */
case class ProcedureSignature(name: String, parameters: String, description: String)

object ProcedureOperations {
  private[catalogext] val Namespace = Array("system")

  /** Copies the rows of a batch, so that they outlive its vectors. */
  private[commands] def rows(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val vectors: Array[ColumnVector] = batch.getFieldVectors.asScala.map(new ArrowColumnVector(_)).toArray
    new ColumnarBatch(vectors, batch.getRowCount).rowIterator().asScala.map(_.copy()).toSeq
  }

  /**
   * Runs a procedure without a time limit. `consume` is called with every batch of the result.
   *
   * @param own the table of Spark's session catalog that has the same name as the table that the call names
   */
  def call(
      client: ServiceClient,
      catalog: String,
      name: String,
      arguments: JsonNode,
      own: Option[SessionTable] = None)(
      consume: VectorSchemaRoot => Unit): Unit = {
    val request = obj("procedure" -> text(name), "arguments" -> arguments)
    PartitionClauses.putLocks(catalog, request)
    own.foreach(table => request.set[JsonNode]("session_table", obj("location" -> text(table.location))))
    ServiceException.translatingTo {
      case e if e.is("TABLE_ALREADY_EXISTS") && e.parameters.contains("session_location") =>
        new TableAlreadyExistsException(own.get.ident)
    } {
      client.stream("procedures/call", request)(ArrowRows.foreachBatch(_)(consume))
    }
  }
}

/** A table of Spark's session catalog, with its location if it has one. */
case class SessionTable(ident: Identifier, location: Option[String])

/**
 * A procedure that must be bound. Spark fills in default values only when it binds a procedure; if the loaded procedure
 * is already bound, it expects an argument for each parameter. In Spark 4.0 a parameter has its value only after
 * binding.
 */
private[catalogext] case class LoadedProcedure(bound: BoundProcedure) extends UnboundProcedure {
  override def name(): String = bound.name()
  override def description(): String = bound.description()
  override def bind(inputType: StructType): BoundProcedure = bound
}

/** One procedure as `procedures/list` describes it. */
private[catalogext] class ServiceProcedure(catalogName: String, client: ServiceClient, node: JsonNode)
  extends BoundProcedure {

  private val result = TableMetadata.schema(node.items("columns"))

  override def name(): String = node.string("name")
  override def description(): String = node.string("description")
  override def isDeterministic: Boolean = false

  override val parameters: Array[ProcedureParameter] = node.items("parameters").map { parameter =>
    val builder = ProcedureParameter.in(
      parameter.string("name"), CatalystSqlParser.parseDataType(parameter.string("type")))
    parameter.stringOption("comment").foreach(builder.comment)
    if (!parameter.field("required").asBoolean()) builder.defaultValue(sql(parameter.get("default")))
    builder.build()
  }.toArray

  private val nullable = node.items("parameters").filter { parameter =>
    val default = parameter.get("default")
    !parameter.field("required").asBoolean() && (default == null || default.isNull)
  }.map(_.string("name")).toSet

  def signature: String = node.items("parameters").map { parameter =>
    val declared = s"${parameter.string("name")} ${parameter.string("type").toUpperCase(java.util.Locale.ROOT)}"
    if (parameter.field("required").asBoolean()) declared else s"$declared DEFAULT ${sql(parameter.get("default"))}"
  }.mkString(", ")

  override def call(input: InternalRow): java.util.Iterator[Scan] = call(input, None)

  /**
   * Calls the service. Spark passes NULL for an omitted argument whose default is NULL, so such an argument is omitted
   * here too. Any other NULL was written by the user, and the service checks it.
   *
   * @param own the table of Spark's session catalog that has the same name as the table that the call names
   */
  def call(input: InternalRow, own: Option[SessionTable]): java.util.Iterator[Scan] = {
    val arguments = parameters.zipWithIndex.collect {
      case (parameter, i) if !input.isNullAt(i) => parameter.name() -> argument(parameter.dataType(), input, i)
      case (parameter, _) if !nullable(parameter.name()) => parameter.name() -> Null
    }
    val rows = ArrayBuffer.empty[InternalRow]
    ProcedureOperations.call(client, catalogName, name(), obj(arguments.toSeq: _*), own)(rows ++= read(_))
    touched(arguments.toSeq, rows.toSeq).foreach(CachedPlans.refresh(SparkSession.active, catalogName, _))
    Iterator[Scan](new ProcedureResult(result, rows.toArray)).asJava
  }

  /**
   * The tables that the call may have changed. The procedure's description says which arguments and result columns name
   * them.
   */
  private def touched(arguments: Seq[(String, JsonNode)], rows: Seq[InternalRow]): Seq[String] = {
    val names = node.items("touches").map(_.asText())
    val given = arguments.collect { case (name, table) if names.contains(name) => table.asText() }
    val found = for {
      name <- names
      at <- result.getFieldIndex(name).toSeq
      row <- rows if !row.isNullAt(at)
    } yield row.getString(at)
    (given ++ found).distinct
  }

  private def argument(dataType: DataType, input: InternalRow, i: Int): JsonNode = dataType match {
    case StringType => text(input.getUTF8String(i).toString)
    case BooleanType => bool(input.getBoolean(i))
    case IntegerType => long(input.getInt(i))
    case LongType => long(input.getLong(i))
    case MapType(StringType, StringType, _) =>
      val map = input.getMap(i)
      val keys = map.keyArray().toArray[UTF8String](StringType).map(_.toString)
      val values = map.valueArray().toArray[UTF8String](StringType)
        .map(value => if (value == null) null else value.toString)
      Json.map(keys.zip(values))
    case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"Procedure ${name()} has a parameter of type ${other.sql}, which this release of the connector does not know.")
  }

  private def sql(default: JsonNode): String =
    if (default == null || default.isNull) "NULL"
    else if (default.isTextual) SqlText.literal(default.asText())
    else if (default.isObject) {
      default.properties().asScala.flatMap(entry => Seq(entry.getKey, entry.getValue.asText()).map(SqlText.literal))
        .mkString("map(", ", ", ")")
    } else default.asText()

  private def read(batch: VectorSchemaRoot): Seq[InternalRow] = {
    val sent = StructType(ArrowUtils.fromArrowSchema(batch.getSchema).map(_.copy(nullable = true)))
    if (sent.map(f => f.name -> f.dataType) != result.map(f => f.name -> f.dataType)) {
      throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
        s"Procedure ${name()} gave the columns ${sent.catalogString} and not ${result.catalogString}: the service " +
          "and the connector are of different releases.")
    }
    ProcedureOperations.rows(batch)
  }
}

private class ProcedureResult(schema: StructType, result: Array[InternalRow]) extends LocalScan {
  override def readSchema(): StructType = schema
  override def rows(): Array[InternalRow] = result
}
