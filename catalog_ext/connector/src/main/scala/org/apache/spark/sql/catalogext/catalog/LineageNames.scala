package org.apache.spark.sql.catalogext.catalog

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalogext.service.Json._

/**
 * How OpenLineage is to call a table: by its location, as it calls files that are read by their path and tables of Hive, with
 * the table's own name beside it. Its listener finds both among the properties of a table; they are shown to no other reader.
 */
private[catalog] object LineageNames {
  private val Prefix = "openlineage.dataset."
  private val Listener = "io.openlineage.spark.agent.OpenLineageSparkListener"
  private val Metastore = "hive.metastore.uris"

  /** The properties, in a session whose context has the listener; none in any other. */
  def of(catalogName: String, table: TableMetadata): Map[String, String] =
    SparkContext.getActive.filter(_.conf.get("spark.extraListeners", "").contains(Listener)).fold(Map.empty[String, String]) {
      context =>
        val metastore = Option(context.hadoopConfiguration.get(Metastore)).filter(_.nonEmpty)
        val (namespace, name) = dataset(table.location)
        val symlink = obj("namespace" -> text(metastore.fold(catalogName)(_.split(',').head.replace("thrift://", "hive://"))),
          "name" -> text(s"${table.namespace}.${table.name}"), "type" -> text("TABLE"))
        Map(s"${Prefix}namespace" -> namespace, s"${Prefix}name" -> name,
          s"${Prefix}facets.symlinks" -> obj("identifiers" -> arr(Seq(symlink))).toString)
    }

  /** The namespace and the name by OpenLineage's convention. */
  def dataset(location: String): (String, String) = {
    val uri = new Path(location).toUri
    (uri.getScheme, uri.getAuthority) match {
      case (null | "file", _) => ("file", uri.getPath)
      case ("s3" | "s3a" | "s3n", bucket) => (s"s3://$bucket", uri.getPath.stripPrefix("/"))
      case (scheme, authority) => (s"$scheme://${Option(authority).getOrElse("")}", uri.getPath)
    }
  }
}
