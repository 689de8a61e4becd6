package org.apache.spark.sql.catalogext.service

/**
 * The SQLSTATE of each condition, by the words of its name.
 *
 * JDBC clients branch on it, and spark-sql prints the Java trace of an exception that has none, or one of class XX.
 */
object SqlStates {
  private val Internal = "XX000"
  private val InAnalysis = "42000"
  private val WhileRunning = "58000"

  // The first that fits decides.
  private val Rules: Seq[(String => Boolean, String)] = Seq(
    is("ERROR") -> Internal,
    is("CONFLICT") -> "40001",
    is("COMMIT_STATE_UNKNOWN") -> "08007",
    is("UNAUTHORIZED") -> "28000",
    is("STORAGE_ACCESS_DENIED") -> "42501",
    is("SERVICE_ANSWER") -> "08000",
    ends("UNAVAILABLE") -> "08001",
    is("NOT_SUPPORTED") -> "0A000",
    is("TOO_MANY_PARTITIONS") -> "54000",
    is("TABLE_NOT_FOUND") -> "42P01",
    is("COLUMN_NOT_FOUND") -> "42703",
    ends("NOT_FOUND") -> "42704",
    is("TABLE_ALREADY_EXISTS") -> "42P07",
    ends("ALREADY_EXISTS") -> "42710",
    starts("INVALID") -> "22023")

  /** The state of the condition `code`; `analysis` says whether it is an error of the statement. */
  def of(code: String, analysis: Boolean): String = {
    val name = code.stripPrefix(s"${ConnectorErrors.Prefix}_")
    Rules.collectFirst { case (fits, state) if fits(name) => state }
      .getOrElse(if (analysis) InAnalysis else WhileRunning)
  }

  private def is(name: String): String => Boolean = _ == name
  private def ends(name: String): String => Boolean = _.endsWith(name)
  private def starts(name: String): String => Boolean = _.startsWith(name)
}
