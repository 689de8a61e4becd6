package org.apache.spark.sql.catalogext.catalog

import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{CharType, DataType, StructField, StructType}

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
