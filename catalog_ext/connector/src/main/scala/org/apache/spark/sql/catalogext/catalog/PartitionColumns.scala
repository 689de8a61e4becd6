package org.apache.spark.sql.catalogext.catalog

import java.time.DateTimeException

import org.apache.spark.sql.catalogext.service.ConnectorErrors
import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, DateTimeUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The partition columns of a table beside its data columns. */
object PartitionColumns {
  /** Those that a query can name: a data column of the same name wins. */
  def visible(table: TableMetadata, resolver: Resolver): StructType =
    StructType(table.partitionColumns.filterNot(key => hidden(table, key.name, resolver)))

  /**
   * All of them, as Spark's readers get them: one that a data column hides gets a name of its own, because the
   * readers would put the partition's value into the data column. CHAR and VARCHAR are STRING, unpadded as in paths.
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
   * The lengths of the CHAR columns, by their place, whose values Spark expects padded from a source: it pads the literals
   * that it compares them with, and the values themselves only with `spark.sql.readSideCharPadding`.
   */
  def padded(table: TableMetadata, conf: SQLConf): Map[Int, Int] =
    if (!table.declared || conf.readSideCharPadding || conf.charVarcharAsString) Map.empty
    else table.partitionColumns.map(_.dataType).zipWithIndex.collect { case (char: CharType, i) => i -> char.length }.toMap

  /** The columns that `SELECT *` leaves out, as statements show them that list a table's columns. */
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
 * What the index can say of partition columns, by their types; what differs is evaluated by Spark. The service has its
 * own list of the first, and `tests/contract/key_types.json` holds both to one answer.
 */
object KeyTypes {
  /** Whether the index distinguishes values exactly where Spark does: it does not for -0.0 and 0.0, or blanks at the end. */
  def isExact(dataType: DataType): Boolean = dataType match {
    case _: CharType | _: VarcharType => false
    case s: StringType => isBinary(s)
    case ByteType | ShortType | IntegerType | LongType | BooleanType | DateType | TimestampType | TimestampNTZType => true
    case _: DecimalType => true
    case _ => false
  }

  /** Whether aggregates of the values can be made of what the index says of each group. */
  def isAnswered(dataType: DataType): Boolean = dataType match {
    // Groups are distinguished by equality, and an array of bytes is equal to itself alone.
    case FloatType | DoubleType | BinaryType => false
    case other => isCompared(other)
  }

  /** Whether the index compares values as Spark does. */
  def isCompared(dataType: DataType): Boolean = dataType match {
    case s: StringType => isBinary(s)
    case _: AtomicType => true
    case _ => false
  }

  // Another collation than the binary one compares otherwise than the index does.
  private def isBinary(s: StringType): Boolean = s.isUTF8BinaryCollation
}

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
