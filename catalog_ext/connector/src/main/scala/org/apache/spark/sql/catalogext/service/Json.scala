package org.apache.spark.sql.catalogext.service

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory, ObjectNode}

/** JSON of the contract: builds requests, and reads fields of answers. */
object Json {
  val mapper = new ObjectMapper()
  private val factory = JsonNodeFactory.instance

  def obj(fields: (String, JsonNode)*): ObjectNode = {
    val node = factory.objectNode()
    fields.foreach { case (name, value) => node.set[JsonNode](name, value) }
    node
  }

  def arr(items: Iterable[JsonNode]): ArrayNode = {
    val node = factory.arrayNode()
    items.foreach(node.add)
    node
  }

  def text(value: String): JsonNode = if (value == null) factory.nullNode() else factory.textNode(value)
  def text(value: Option[String]): JsonNode = text(value.orNull)
  def bool(value: Boolean): JsonNode = factory.booleanNode(value)
  def long(value: Long): JsonNode = factory.numberNode(value)
  val Null: JsonNode = factory.nullNode()

  def map(values: Iterable[(String, String)]): ObjectNode =
    obj(values.map { case (key, value) => key -> text(value) }.toSeq: _*)

  /** Reads the fields of an object in an answer. A missing field is an error that names it. */
  implicit class Fields(private val node: JsonNode) extends AnyVal {
    def field(name: String): JsonNode = Option(node.get(name)).getOrElse(
      throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
        s"The service's answer has no field '$name': the service and the connector are of different releases."))

    def string(name: String): String = field(name).asText()

    def stringOption(name: String): Option[String] =
      Option(node.get(name)).filterNot(_.isNull).map(_.asText())

    def longOption(name: String): Option[Long] = Option(node.get(name)).filterNot(_.isNull).map(_.asLong())

    def items(name: String): Seq[JsonNode] = field(name).elements().asScala.toSeq

    def stringMap(name: String): Map[String, String] =
      Option(node.get(name)).filterNot(_.isNull).toSeq
        .flatMap(_.properties().asScala)
        .map(entry => entry.getKey -> entry.getValue.asText())
        .toMap
  }
}
