package org.apache.spark.sql.catalogext.catalog

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.commands.PartitionClauses
import org.apache.spark.sql.catalogext.service.{ConnectorErrors, ServiceClient, ServiceException}
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.analysis.{NamespaceAlreadyExistsException, NonEmptyNamespaceException,
  NoSuchNamespaceException}
import org.apache.spark.sql.connector.catalog.{NamespaceChange, SupportsNamespaces}

/** Spark's namespace operations, as requests to the service. Namespaces have one level. */
class NamespaceOperations(catalogName: String, client: ServiceClient) {

  def list(): Array[Array[String]] = ServiceException.translating {
    client.call("namespaces/list", obj()).items("namespaces").map(node => Array(node.asText())).toArray
  }

  def exists(namespace: Array[String]): Boolean = namespace.length == 1 && {
    try {
      client.call("namespaces/load", obj("namespace" -> text(namespace.head)))
      true
    } catch {
      case e: ServiceException if e.is("NAMESPACE_NOT_FOUND") => false
      case e: ServiceException => throw e.toSpark
    }
  }

  /** The namespace's properties, with Spark's reserved ones for its location and comment. */
  def load(namespace: Array[String]): Map[String, String] = {
    val name = single(namespace)
    properties(translating(namespace)(client.call("namespaces/load", obj("namespace" -> text(name)))))
  }

  def create(namespace: Array[String], properties: Map[String, String]): Unit =
    if (namespace.length != 1) throw tooDeep(namespace)
    else translating(namespace) {
      client.call("namespaces/create", obj("namespace" -> text(namespace.head), "properties" -> map(properties)),
        limited = false)
    }

  def alter(namespace: Array[String], changes: Seq[NamespaceChange]): Unit = {
    val name = single(namespace)
    val set = changes.collect { case change: NamespaceChange.SetProperty => change.property() -> change.value() }
    val remove = changes.collect { case change: NamespaceChange.RemoveProperty => text(change.property()) }
    translating(namespace) {
      client.call("namespaces/alter", obj("namespace" -> text(name), "set" -> map(set), "remove" -> arr(remove)),
        limited = false)
    }
  }

  def drop(namespace: Array[String], cascade: Boolean): Boolean = {
    val name = single(namespace)
    val request = obj("namespace" -> text(name), "cascade" -> bool(cascade))
    PartitionClauses.putLocks(catalogName, request)
    translating(namespace) {
      client.call("namespaces/drop", request, limited = false)
    }.field("dropped").asBoolean()
  }

  /** The single level of `namespace`. */
  def single(namespace: Array[String]): String =
    if (namespace.length == 1) namespace.head else throw new NoSuchNamespaceException(namespace)

  private def properties(answer: JsonNode): Map[String, String] =
    answer.stringMap("properties") ++
      answer.stringOption("location").map(SupportsNamespaces.PROP_LOCATION -> _) ++
      answer.stringOption("comment").map(SupportsNamespaces.PROP_COMMENT -> _)

  private def translating[T](namespace: Array[String])(body: => T): T = ServiceException.translatingTo {
    case e if e.is("NAMESPACE_NOT_FOUND") => new NoSuchNamespaceException(namespace)
    case e if e.is("NAMESPACE_ALREADY_EXISTS") => new NamespaceAlreadyExistsException(namespace)
    case e if e.is("NAMESPACE_NOT_EMPTY") => NonEmptyNamespaceException(namespace, e.text, Some(e))
  }(body)

  private def tooDeep(namespace: Array[String]): Throwable = ConnectorErrors.analysis(
    ConnectorErrors.InvalidIdentifier,
    s"The namespace '${namespace.mkString(".")}' has ${namespace.length} levels; a namespace of catalog-ext has one.")
}
