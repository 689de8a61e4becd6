package org.apache.spark.sql.catalogext.session

import org.apache.spark.SparkContext
import org.apache.spark.sql.classic

/**
 * Gives executors the jars that the driver was started with.
 *
 * PySpark resolves `spark.jars.packages` (S3A among them) when it starts its JVM, and adds the jars to `spark.jars`; then
 * the session's builder sets `spark.jars` again to what the user's program gave, so that only the driver has the others.
 */
object SubmittedJars {
  def share(): Unit = classic.SparkSession.getActiveSession.map(_.sparkContext).filterNot(_.isLocal).foreach(share)

  private def share(context: SparkContext): Unit = {
    val known = context.listJars().map(fileName).toSet
    sys.props.get("spark.jars").toSeq.flatMap(_.split(',')).map(_.trim)
      .filter(jar => jar.nonEmpty && !known(fileName(jar))).foreach(context.addJar)
  }

  private def fileName(jar: String): String = jar.substring(jar.lastIndexOf('/') + 1)
}
