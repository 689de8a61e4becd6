package org.apache.spark.sql.catalogext.scan

import org.apache.spark.sql.catalogext.catalog.PartitionValues
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.types.StructType

/** What a scan reads of the partitions that the service gives. */
private[catalogext] trait FileChoice {
  /** Whether something of the partition is read; files of it that are not are taken out. */
  def leaves(directory: DirectoryFiles): Boolean
}

/** Everything. */
private[catalogext] object AllFiles extends FileChoice {
  override def leaves(directory: DirectoryFiles): Boolean = true
}

/** The files whose rows the index does not know; `into` takes the rows of the others. */
private[catalogext] class UncountedFiles(filter: PartitionFilter, values: PartitionValues, val into: AnswerRows)
  extends FileChoice {

  override def leaves(directory: DirectoryFiles): Boolean = {
    val name = directory.name
    val row = values.parse(name)
    filter.matches(row) && {
      // Of a partition with other files the index says nothing as long as these are not counted.
      val whole = if (directory.rows.isDefined) 1 else 0
      for (file <- 0 until directory.count if directory.rowCount(file) >= 0) {
        into.take(PartitionGroup(0, name, row, whole, 1, directory.size(file), Some(directory.rowCount(file))))
      }
      directory.retain(directory.rowCount(_) < 0)
      directory.count > 0
    }
  }
}

/**
 * By Spark's filters on partition columns and on the columns that say which file a row comes from, evaluated exactly, and by
 * options on files' names and times.
 */
private[catalogext] class FilteredFiles(
    keys: StructType,
    fileColumns: StructType,
    values: PartitionValues,
    filters: Seq[Expression],
    options: FileFilters,
    tableLocation: String)
  extends FileChoice {

  private val (ofFiles, ofKeys) = filters.partition(FileColumns.mentioned(fileColumns, _))
  private val keyFilter = new PartitionFilter(keys, ofKeys)
  private val fileFilter = new PartitionFilter(StructType(keys ++ fileColumns), ofFiles)

  // The name is read in any case: one that does not fit the table's keys is an error before a task is started.
  override def leaves(directory: DirectoryFiles): Boolean = {
    val row = values.parse(directory.name).asInstanceOf[GenericInternalRow]
    keyFilter.matches(row) && {
      if (ofFiles.nonEmpty || !options.isEmpty) retain(directory, row)
      directory.count > 0
    }
  }

  private def retain(directory: DirectoryFiles, row: GenericInternalRow): Unit = {
    val place = directory.directory(tableLocation)
    val name = directory.name
    directory.retain { file =>
      val status = directory.status(file, place)
      options.accepts(status) && (ofFiles.isEmpty || fileFilter.matches(
        FileColumns.values(fileColumns, row, name, status.getPath, status.getLen, status.getModificationTime)))
    }
  }
}
