package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.classic.SparkSession

object Caches {
  /** Removes the table or view from the cache: Spark would otherwise read the version of its cached plan again. */
  def refresh(session: SparkSession, name: Seq[String]): Unit =
    session.sharedState.cacheManager.uncacheTableOrView(session, name, cascade = true)
}
