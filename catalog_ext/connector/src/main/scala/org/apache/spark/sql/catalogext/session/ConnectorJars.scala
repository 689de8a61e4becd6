package org.apache.spark.sql.catalogext.session

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.{JobArtifactSet, JobArtifactState, SparkContext}
import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.classic

/** What a catalog sees to about jars before it does anything else. */
object ConnectorJars {
  private val BuiltFor = "/META-INF/catalog-ext/spark-version"
  private val NoSession: JobArtifactState = null
  /** What Spark keeps the jars by that are of no session of Spark Connect. */
  private val OfAllSessions = "default"

  /**
   * Raises a runtime error when the running Spark is of another minor version than the one that this jar was compiled
   * against: Spark's internals change between them.
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
   * Gives executors the jars that the driver was started with.
   *
   * PySpark resolves `spark.jars.packages` (S3A among them) when it starts its JVM, and adds the jars to `spark.jars`;
   * then the session's builder sets `spark.jars` again to what the user's program gave, so that only the driver has the
   * others. They are of all sessions: what a session of Spark Connect adds, the executors have for that session alone.
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
