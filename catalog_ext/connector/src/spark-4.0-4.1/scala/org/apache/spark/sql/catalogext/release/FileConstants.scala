package org.apache.spark.sql.catalogext.release

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.types.StructField

object FileConstants {
  /** The value of a field of `_metadata` for a file. */
  def of(field: StructField, file: PartitionedFile): Literal =
    FileFormat.getFileConstantMetadataColumnValue(field.name, file, FileFormat.BASE_METADATA_EXTRACTORS)
}
