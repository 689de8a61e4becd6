package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.classic.SparkSession

object Caches {
  /** Makes cached data of the table or view reload. */
  def refresh(session: SparkSession, name: Seq[String]): Unit =
    session.sharedState.cacheManager.recacheTableOrView(session, name)
}
