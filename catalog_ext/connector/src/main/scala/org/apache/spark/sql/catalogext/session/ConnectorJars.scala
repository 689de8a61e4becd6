package org.apache.spark.sql.catalogext.session

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.{JobArtifactSet, JobArtifactState, SparkContext}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.classic

/** Checks this jar's Spark version, and distributes jars to executors, when a catalog is initialized. */
object ConnectorJars {
  private val BuiltFor = "/META-INF/catalog-ext/spark-version"
  private val NoSession: JobArtifactState = null
  /** Spark's key for jars that do not belong to a Spark Connect session. */
  private val OfAllSessions = "default"

  /**
   * Raises a runtime error if the running Spark has another minor version than the one that this jar was compiled for,
   * because Spark's internals differ.
   */
  def checkSpark(): Unit = {
    val running = org.apache.spark.SPARK_VERSION
    val built = Option(getClass.getResourceAsStream(BuiltFor)).map { stream =>
      try new String(stream.readAllBytes(), UTF_8).trim finally stream.close()
    }
    if (!built.map(minor).contains(minor(running))) throw ConnectorErrors.runtime(ConnectorErrors.EnvironmentSetup,
      "This catalog-ext jar is a jar for another Spark version: it was compiled for Spark " +
        s"${built.getOrElse("(unknown)")}, and this is Spark $running. Give the one for it in spark.jars: python -m " +
        "catalog_ext.connector.build prints its path.", Map("running" -> running, "built" -> built.getOrElse("")))
  }

  private def minor(version: String): String = version.split('.').take(2).mkString(".")

  /**
   * Distributes the jars of the driver's command line to executors.
   *
   * PySpark resolves `spark.jars.packages` (S3A, for example) when it starts the JVM, and adds the jars to
   * `spark.jars`. The session's builder then overwrites `spark.jars` with the program's value, so only the driver has
   * them. They are added for all sessions: executors see the jars of a Spark Connect session in that session only.
   */
  def shareSubmitted(): Unit =
    classic.SparkSession.getActiveSession.map(_.sparkContext).filterNot(_.isLocal).foreach { context =>
      JobArtifactSet.withActiveJobArtifactState(NoSession)(shareSubmitted(context))
    }

  private def shareSubmitted(context: SparkContext): Unit = {
    val known = context.addedJars.get(OfAllSessions).toSeq.flatMap(_.keys).map(fileName).toSet
    sys.props.get("spark.jars").toSeq.flatMap(_.split(',')).map(_.trim)
      .filter(jar => jar.nonEmpty && !known(fileName(jar))).foreach(context.addJar)
  }

  private def fileName(jar: String): String = jar.substring(jar.lastIndexOf('/') + 1)
}
