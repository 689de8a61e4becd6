package org.apache.spark.sql.catalogext.catalog

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.connector.catalog.{TableCatalog, TableChange}
import org.apache.spark.sql.internal.SQLConf

/** Converts Spark's table changes to the fields of `tables/alter`. The service decides which changes are possible. */
object TableAlterations {

  /**
   * Adds the changes to a `tables/alter` request, and returns it. `table` is called only for REPLACE COLUMNS, for the
   * present columns.
   */
  def addTo(request: ObjectNode, changes: Seq[TableChange], table: () => TableMetadata): ObjectNode = {
    changes.foreach {
      case _: TableChange.SetProperty | _: TableChange.RemoveProperty | _: TableChange.ColumnChange =>
      // CLUSTER BY is ignored, as in CREATE TABLE.
      case _: TableChange.ClusterBy =>
      case other => throw unknown(other)
    }
    val set = changes.collect { case change: TableChange.SetProperty => change.property() -> change.value() }
    val (location, properties) = set.partition(_._1 == TableCatalog.PROP_LOCATION)
    val removed = changes.collect { case change: TableChange.RemoveProperty => text(change.property()) }
    request.set[JsonNode]("set", map(properties))
    request.set[JsonNode]("remove", arr(removed))
    request.set[JsonNode]("changes", arr(withoutKeys(changes, table).collect {
      case change: TableChange.ColumnChange => column(change)
    }))
    request.set[JsonNode]("location", text(location.lastOption.map(_._2)))
    request
  }

  /**
   * The changes without the removal of partition columns. REPLACE COLUMNS arrives as the removal of all columns; as in
   * Hive, the partition columns stay.
   */
  private def withoutKeys(changes: Seq[TableChange], table: () => TableMetadata): Seq[TableChange] = {
    val added = changes.exists(_.isInstanceOf[TableChange.AddColumn])
    val deleted = changes.collect { case change: TableChange.DeleteColumn => change.fieldNames().toSeq }
    if (!added || deleted.isEmpty) changes
    else {
      val resolver = SQLConf.get.resolver
      val keys = table().partitionColumns.fieldNames
      changes.filter {
        case change: TableChange.DeleteColumn =>
          change.fieldNames().length > 1 || !keys.exists(resolver(_, change.fieldNames().head))
        case _ => true
      }
    }
  }

  private def column(change: TableChange.ColumnChange): ObjectNode = change match {
    case add: TableChange.AddColumn =>
      val node = of("add", add)
      node.put("type", TableMetadata.typeText(add.dataType()))
      node.put("nullable", add.isNullable)
      node.put("comment", add.comment())
      Option(add.defaultValue()).foreach { value =>
        node.put("default", value.getSql)
        node.put("existing_default", Literal(value.getValue.value(), value.getValue.dataType()).sql)
      }
      positioned(node, add.position())
    case change: TableChange.RenameColumn => of("rename", change).put("name", change.newName())
    case change: TableChange.DeleteColumn => of("drop", change).put("if_exists", change.ifExists().booleanValue())
    case change: TableChange.UpdateColumnType =>
      of("type", change).put("type", TableMetadata.typeText(change.newDataType()))
    case change: TableChange.UpdateColumnNullability => of("nullable", change).put("nullable", change.nullable())
    case change: TableChange.UpdateColumnComment => of("comment", change).put("comment", change.newComment())
    case change: TableChange.UpdateColumnPosition => positioned(of("move", change), change.position())
    case change: TableChange.UpdateColumnDefaultValue =>
      of("default", change).put("default", Option(change.newDefaultValue()).filter(_.nonEmpty).orNull)
    case other => throw unknown(other)
  }

  private def unknown(change: TableChange): Throwable = ConnectorErrors.notSupported(
    s"catalog-ext has no ALTER TABLE with ${change.getClass.getSimpleName}: docs/sql.md lists what can be altered.")

  private def of(kind: String, change: TableChange.ColumnChange): ObjectNode =
    obj("change" -> text(kind), "path" -> arr(change.fieldNames().toSeq.map(name => text(name))))

  private def positioned(node: ObjectNode, position: TableChange.ColumnPosition): ObjectNode = position match {
    case null => node
    case after: TableChange.After => node.put("after", after.column())
    case _ => node.put("first", true)
  }
}
