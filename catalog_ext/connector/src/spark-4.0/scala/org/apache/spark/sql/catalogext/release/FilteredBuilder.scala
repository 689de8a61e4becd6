package org.apache.spark.sql.catalogext.release

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.{PartitioningAwareFileIndex, PartitionSpec}
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder
import org.apache.spark.sql.types.StructType

/**
 * A scan builder that receives Spark's own expressions as filters. Spark 4.0 passes them to builders of file scans
 * only.
 */
abstract class FilteredBuilder(session: SparkSession)
  extends FileScanBuilder(session, new NoFiles(session), new StructType)

/** Required by the base class but never used: all methods that would use files are overridden. */
private class NoFiles(session: SparkSession) extends PartitioningAwareFileIndex(session, Map.empty, None) {
  override def partitionSpec(): PartitionSpec = PartitionSpec.emptySpec
  override def rootPaths: Seq[Path] = Nil
  override def refresh(): Unit = ()
  override protected def leafFiles: mutable.LinkedHashMap[Path, FileStatus] = mutable.LinkedHashMap.empty
  override protected def leafDirToChildrenFiles: Map[Path, Array[FileStatus]] = Map.empty
}
