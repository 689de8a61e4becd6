package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.classic.SparkSession

object Caches {
  /** Ends the caching of the table or view: Spark would read the version again that it has a plan of. */
  def refresh(session: SparkSession, name: Seq[String]): Unit =
    session.sharedState.cacheManager.uncacheTableOrView(session, name, cascade = true)
}
