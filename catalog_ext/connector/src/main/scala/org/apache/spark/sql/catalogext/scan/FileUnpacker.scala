package org.apache.spark.sql.catalogext.scan

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.types.StructType

/**
 * Makes Spark's files of packed ones, in the task that reads them.
 *
 * @param keys the partition columns, with the table's own types
 * @param zone the zone that TIMESTAMP keys are local in
 * @param lengths of the keys, by their place, whose texts are padded with blanks
 * @param fileColumns the columns behind the keys that say which file a row comes from
 * @param read the places, among keys and file columns, of those that the scan reads
 */
case class FileUnpacker(
    tableLocation: String,
    keys: StructType,
    zone: String,
    lengths: Map[Int, Int],
    fileColumns: StructType,
    read: Seq[Int]) {

  private val readsFileColumns = read.exists(_ >= keys.length)

  def unpack(partition: PackedFilePartition): FilePartition = {
    val values = new PartitionValues(keys, zone, lengths)
    val files = ArrayBuffer.empty[PartitionedFile]
    val input = new FileInput(partition.packed)
    var directory: UnpackedDirectory = null
    while (input.next()) {
      if (input.isNewDirectory) directory = opened(input, values)
      files += file(input, directory)
    }
    FilePartition(partition.index, files.toArray)
  }

  private def opened(input: FileInput, values: PartitionValues): UnpackedDirectory = {
    val name = input.name.toString
    val place = if (input.isElsewhere) input.location.toString else DirectoryFiles.join(tableLocation, name)
    val row = values.parse(name).asInstanceOf[GenericInternalRow]
    UnpackedDirectory(name, place, row, if (readsFileColumns) null else projected(row),
      Map(PlannedFiles.PartitionNameKey -> name))
  }

  private def projected(row: GenericInternalRow): InternalRow = new GenericInternalRow(read.map(row.values(_)).toArray)

  private def file(input: FileInput, directory: UnpackedDirectory): PartitionedFile = {
    val path = new Path(DirectoryFiles.join(directory.place, input.path.toString))
    val row = if (!readsFileColumns) directory.row else projected(
      FileColumns.values(fileColumns, directory.values, directory.name, path, input.size, input.modifiedMs))
    PartitionedFile(
      row, SparkPath.fromPath(path), input.start, input.length, Array.empty, input.modifiedMs, input.size,
      directory.constants)
  }
}

/** The directory of a partition; `row` are the values that are read, where all its files have the same. */
private case class UnpackedDirectory(
    name: String,
    place: String,
    values: GenericInternalRow,
    row: InternalRow,
    constants: Map[String, Any])
