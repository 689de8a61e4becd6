package org.apache.spark.sql.catalogext.write

/**
 * The faults of the writer that a Parquet file's `created_by` names. Parquet's own `CorruptStatistics` knows of bounds
 * only; these writers are known to count NULLs wrongly.
 */
private[write] class ParquetWriter(createdBy: String) {
  private val (application, version) = createdBy match {
    case ParquetWriter.Versioned(name, major, minor) => (name, Some((major.toInt, minor.toInt)))
    case other => (Option(other).getOrElse("").trim, None)
  }

  private def isBefore(major: Int, minor: Int): Boolean =
    version.forall { case (ours, part) => ours < major || ours == major && part < minor }

  private def isOf(names: String*): Boolean = names.exists(application.toLowerCase(java.util.Locale.ROOT).startsWith(_))

  /**
   * Whether a chunk's NULL count may be trusted.
   *
   * @param isBytes whether the column is of BYTE_ARRAY
   * @param hasBounds whether the chunk has a least and a greatest value
   */
  def countsRightly(nulls: Long, values: Long, isBytes: Boolean, hasBounds: Boolean): Boolean =
    if (application.isEmpty) false
    // Before PARQUET-1217 a missing count was read as 0, and written as 0 when row groups were copied.
    else if (application == "parquet-mr") nulls != 0 || !isBefore(1, 10)
    // ARROW-12513: always 0 of columns that were dictionaries in memory.
    else if (isOf("parquet-cpp") && isBytes && nulls == 0 && isBefore(6, 0)) false
    // pola-rs/polars#29321: each page counted the NULLs of all pages. Before there were versions, too.
    else if (isOf("polars", "arrow2") && nulls != 0 && (isOf("arrow2") || isBefore(2, 1))) false
    // apache/arrow-go#489, parquet-go/parquet-go#373, hangxie/parquet-tools#205: too few, or negative.
    else if (application.contains("parquet-go")) false
    // apache/arrow-rs#306: 0 where all are NULL. Other writers than parquet-mr leave out bounds of few values.
    else nulls != 0 || hasBounds || values == 0
}

private object ParquetWriter {
  private val Versioned = """\s*(.*?)\s+version\s+v?(\d{1,6})\.(\d{1,6}).*""".r
}
