package org.apache.spark.sql.catalogext.catalog

import java.time.DateTimeException

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The zone that the values of TIMESTAMP keys are local in: what the option `timeZone` of the read, of the write or of the
 * table says, the nearest first, else the session's, as for Spark's own file tables.
 */
object KeyZone {
  private val TimeZone = DateTimeUtils.TIMEZONE_OPTION

  def of(
      table: TableMetadata,
      conf: SQLConf,
      options: CaseInsensitiveStringMap = CaseInsensitiveStringMap.empty()): String = {
    val given = Option(options.get(TimeZone))
      .orElse(table.options.collectFirst { case (key, zone) if key.equalsIgnoreCase(TimeZone) => zone })
    given.foreach(check(table, _))
    given.getOrElse(conf.sessionLocalTimeZone)
  }

  private def check(table: TableMetadata, zone: String): Unit =
    try DateTimeUtils.getZoneId(zone) catch {
      case e: DateTimeException => throw ConnectorErrors.analysis(ConnectorErrors.InvalidConfiguration,
        s"The option $TimeZone of table ${table.qualifiedName} is '$zone', which is no zone such as Asia/Tokyo or +09:00.",
        Map("table" -> table.qualifiedName, "value" -> zone), Some(e))
    }
}
