package org.apache.spark.sql.catalogext.release

import java.util
import java.util.{Optional, OptionalLong}

import scala.jdk.CollectionConverters._
import scala.jdk.OptionConverters._

import org.apache.spark.sql.catalyst.catalog.CatalogStatistics
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat
import org.apache.spark.sql.connector.expressions.{FieldReference, NamedReference}
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics
import org.apache.spark.sql.types.StructType

object Statistics {
  /** Statistics of columns as the optimizer takes them. */
  def ofColumns(found: CatalogStatistics, schema: StructType): util.Map[NamedReference, ColumnStatistics] =
    (for ((name, column) <- found.colStats; field <- schema.find(_.name == name)) yield
      (FieldReference(Seq(name)): NamedReference) -> (new OfColumn(column.toPlanStat(name, field.dataType)): ColumnStatistics)
    ).asJava

  private class OfColumn(known: ColumnStat) extends ColumnStatistics {
    override def distinctCount(): OptionalLong = number(known.distinctCount)
    override def nullCount(): OptionalLong = number(known.nullCount)
    override def avgLen(): OptionalLong = number(known.avgLen.map(BigInt(_)))
    override def maxLen(): OptionalLong = number(known.maxLen.map(BigInt(_)))
    override def min(): Optional[Object] = known.min.map(_.asInstanceOf[Object]).toJava
    override def max(): Optional[Object] = known.max.map(_.asInstanceOf[Object]).toJava
  }

  private def number(value: Option[BigInt]): OptionalLong =
    value.filter(_.isValidLong).fold(OptionalLong.empty())(n => OptionalLong.of(n.toLong))
}
