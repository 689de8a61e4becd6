package org.apache.spark.sql.catalogext.session

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalogext.service.ConnectorErrors

/** Spark's internals change between releases: a jar that was compiled for another one must not be used. */
object BuiltFor {
  private val Resource = "/META-INF/catalog-ext/spark-version"

  /** Raises a runtime error when the running Spark is not the one that this jar was compiled against. */
  def check(): Unit = {
    val running = org.apache.spark.SPARK_VERSION
    val built = Option(getClass.getResourceAsStream(Resource)).map { stream =>
      try new String(stream.readAllBytes(), UTF_8).trim finally stream.close()
    }
    if (!built.contains(running)) throw ConnectorErrors.runtime(ConnectorErrors.EnvironmentSetup,
      "This catalog-ext jar is a jar for another Spark version: it was compiled for Spark " +
        s"${built.getOrElse("(unknown)")}, and this is Spark $running. Build the jar for it: python -m catalog_ext.connector.build prints its path; " +
        "give that in spark.jars.", Map("running" -> running, "built" -> built.getOrElse("")))
  }
}
