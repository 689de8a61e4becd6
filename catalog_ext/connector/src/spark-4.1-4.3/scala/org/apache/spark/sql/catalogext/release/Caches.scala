package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.classic.SparkSession

object Caches {
  /** Has what is cached of the table or view read again. */
  def refresh(session: SparkSession, name: Seq[String]): Unit =
    session.sharedState.cacheManager.recacheTableOrView(session, name)
}
