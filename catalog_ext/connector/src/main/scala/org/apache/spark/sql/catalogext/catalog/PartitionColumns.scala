package org.apache.spark.sql.catalogext.catalog

import java.time.DateTimeException

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, DateTimeUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The partition columns of a table, in relation to its data columns. */
object PartitionColumns {
  /** The partition columns that a query can name. A data column of the same name hides a partition column. */
  def visible(table: TableMetadata, resolver: Resolver): StructType =
    StructType(table.partitionColumns.filterNot(key => hidden(table, key.name, resolver)))

  /**
   * All partition columns, for Spark's readers. A key that a data column hides is renamed, because the readers would
   * otherwise write the partition's value into the data column. CHAR and VARCHAR become STRING, unpadded as in paths.
   */
  def forReaders(table: TableMetadata, resolver: Resolver): StructType = {
    val taken = (table.columns.fieldNames ++ table.partitionColumns.fieldNames).toSet
    StructType(table.partitionColumns.map { key =>
      val dataType = plain(key.dataType)
      if (hidden(table, key.name, resolver)) key.copy(name = free(key.name, taken, resolver), dataType = dataType)
      else key.copy(dataType = dataType)
    })
  }

  /**
   * The lengths of the CHAR partition columns whose values must be padded with blanks, by position. Spark pads literals
   * that it compares with a CHAR column, and expects padded values from the source unless
   * `spark.sql.readSideCharPadding` is set.
   */
  def padded(table: TableMetadata, conf: SQLConf): Map[Int, Int] =
    if (!table.declared || conf.readSideCharPadding || conf.charVarcharAsString) Map.empty
    else table.partitionColumns.map(_.dataType).zipWithIndex.collect { case (char: CharType, i) => i -> char.length }.toMap

  /** The virtual partition columns, with a comment that says so, for statements that list a table's columns. */
  def marked(keys: Seq[StructField]): StructType = StructType(keys.map { key =>
    key.withComment(key.getComment().fold(Hidden)(comment => s"$comment ($Hidden)"))
  })

  private val Hidden = "hidden: SELECT * leaves it out"

  def plain(dataType: DataType): DataType = CharVarcharUtils.replaceCharVarcharWithString(dataType)

  def plainSchema(schema: StructType): StructType = CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema)

  private def hidden(table: TableMetadata, key: String, resolver: Resolver): Boolean =
    table.columns.fieldNames.exists(resolver(_, key))

  private def free(key: String, taken: Set[String], resolver: Resolver): String =
    Iterator.iterate(s"_part_$key")("_" + _).find(name => !taken.exists(resolver(_, name))).get
}

/**
 * The types of partition columns for which the index compares, orders or aggregates values as Spark does; Spark itself
 * handles other types. The service has a list of its own for `isExact`; `tests/contract/key_types.json` checks that
 * both agree.
 */
object KeyTypes {
  /**
   * Whether two values of the type are equal in the index exactly if they are equal in Spark. Not so for types with
   * -0.0 and 0.0, and for strings whose trailing blanks Spark ignores.
   */
  def isExact(dataType: DataType): Boolean = dataType match {
    case _: CharType | _: VarcharType => false
    case s: StringType => isBinary(s)
    case ByteType | ShortType | IntegerType | LongType | BooleanType | DateType | TimestampType | TimestampNTZType => true
    case _: DecimalType => true
    case _ => false
  }

  /** Whether the driver can compute aggregates of the values from the groups of partitions that the index returns. */
  def isAnswered(dataType: DataType): Boolean = dataType match {
    // Groups are compared with equals(), by which NaN and arrays of bytes behave differently from SQL.
    case FloatType | DoubleType | BinaryType => false
    case other => isCompared(other)
  }

  /** Whether the index orders the values as Spark does. */
  def isCompared(dataType: DataType): Boolean = dataType match {
    case s: StringType => isBinary(s)
    case _: AtomicType => true
    case _ => false
  }

  // A collation other than UTF8_BINARY compares strings differently from the index.
  private def isBinary(s: StringType): Boolean = s.isUTF8BinaryCollation
}

/**
 * The time zone of TIMESTAMP partition values: the option `timeZone` of the read or write, else of the table, else the
 * session's time zone, as for Spark's own file tables.
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
