package org.apache.spark.sql.catalogext.write

import java.util.{Date, LinkedHashMap => JLinkedHashMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.mapreduce.{TaskAttemptContext, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl

import org.apache.spark.internal.Logging
import org.apache.spark.internal.io.SparkHadoopWriterUtils
import org.apache.spark.sql.catalogext.service.Json
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.execution.UnsafeExternalRowSorter
import org.apache.spark.sql.execution.datasources.OutputWriter
import org.apache.spark.sql.internal.SQLConf

class StagingWriterFactory(job: WriteJob) extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] = {
    job.failures.watch()
    new StagingDataWriter(job, partitionId, taskId)
  }
}

/** Creates writers for a batch that is already committed; they discard all rows. */
class DiscardingWriterFactory extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] = new DataWriter[InternalRow] {
    override def write(row: InternalRow): Unit = ()
    override def commit(): WriterCommitMessage = StagedFiles.message(Json.arr(Nil))
    override def abort(): Unit = ()
    override def close(): Unit = ()
  }
}

/**
 * Writes one task's rows to files of their partitions.
 *
 * Rows that are grouped by partition need one open file at a time. Other rows go to the open file of their partition
 * while there are at most `maxOpenWriters`. Rows of further partitions are sorted, which may spill to disk, and written
 * at the end, one partition after the other.
 */
class StagingDataWriter(job: WriteJob, partitionId: Int, attempt: Long) extends DataWriter[InternalRow] with Logging {
  private val context: TaskAttemptContext = StagingDataWriter.context(job, partitionId)
  private val staging = FileStaging(job, context.getConfiguration)
  private val names = new RowPartitioner(job)
  private val keyOf = UnsafeProjection.create(job.keys.map(_.attribute), job.allColumns)
  private val dataOf = UnsafeProjection.create(
    job.dataColumns.map(column => job.allColumns.find(_.exprId == column.exprId).get), job.allColumns)
  // Some settings of Spark's writers are read from the SQL conf only, so tasks get a copy of it; the session's own conf
  // is not changed.
  private val sqlConf = StagingDataWriter.sqlConf(job)
  private val extension = job.writers.getFileExtension(context)
  // Check a file's size only after so many bytes of rows: asking the store is expensive, and the file is smaller than
  // the rows, because it is compressed.
  private val bytesBetweenChecks = math.min(math.max(job.maxFileBytes / 16, 64L << 10), 64L << 20)

  private val open = new JLinkedHashMap[UnsafeRow, OpenFile]
  private var last: OpenFile = _
  private var sorter: UnsafeExternalRowSorter = _
  private val partitions = new java.util.HashSet[String]
  private var counter = 0

  override def write(row: InternalRow): Unit = {
    val key = keyOf(row)
    if (last == null || last.key != key) last = find(key, row)
    if (last == null) sort(row) else put(last, row)
  }

  /** The open file for the partition `key`, or a new one if `maxOpenWriters` permits it; else null. */
  private def find(key: UnsafeRow, row: InternalRow): OpenFile = {
    val found = open.get(key)
    if (found != null) found
    else if (job.grouped) {
      closeAll()
      start(key.copy(), row)
    } else if (open.size < job.maxOpenWriters) start(key.copy(), row)
    else null
  }

  private def start(key: UnsafeRow, row: InternalRow): OpenFile = {
    val partition = names.of(row)
    if (partitions.add(partition)) job.partitionLimit.foreach { case (setting, limit) =>
      if (partitions.size > limit)
        throw WriteErrors.tooManyPartitions(job.tableName, setting, limit, partitions.size, "a task of the write")
    }
    val file = create(key, partition, job.stagingLocations.directoryOf(partition))
    open.put(key, file)
    file
  }

  private def create(key: UnsafeRow, partition: String, directory: String): OpenFile = {
    val name = StagingDataWriter.fileName(partitionId, job.stagingLocations.transaction, attempt, counter, extension)
    counter += 1
    val target = TargetFile(partition, directory, name)
    val path = staging.pathFor(target)
    new OpenFile(key, target, path, WriteErrors.storing(job.tableName, path) {
      SQLConf.withExistingConf(sqlConf)(job.writers.newInstance(path, job.fileSchema, context))
    })
  }

  private def put(file: OpenFile, row: InternalRow): Unit = {
    val data = dataOf(row)
    val target = if (full(file)) follow(file) else file
    try target.writer.write(data) catch { case NonFatal(e) => throw broken(target, e) }
    target.rows += 1
    target.unchecked += data.getSizeInBytes
  }

  private def full(file: OpenFile): Boolean =
    (job.maxRecordsPerFile > 0 && file.rows >= job.maxRecordsPerFile) ||
      (file.unchecked >= bytesBetweenChecks && {
        file.unchecked = 0
        staging.size(file.path) >= job.maxFileBytes
      })

  private def follow(file: OpenFile): OpenFile = {
    finish(file)
    val next = create(file.key, file.target.partition, file.target.directory)
    open.put(file.key, next)
    last = next
    next
  }

  private def finish(file: OpenFile): Unit = {
    open.remove(file.key)
    try file.writer.close() catch { case NonFatal(e) => throw broken(file, e) }
    staging.closed(file.target, file.path, file.rows)
  }

  private def closeAll(): Unit = {
    last = null
    open.values.asScala.toSeq.foreach(finish)
  }

  /**
   * Removes a file whose writer failed from the open files, so that it is not closed again, and returns the error to
   * report.
   */
  private def broken(file: OpenFile, e: Throwable): Throwable = {
    open.remove(file.key)
    // A format's writer may wrap the file system's error in its own exception.
    if (WriteErrors.isOfStorage(e)) WriteErrors.storage(job.tableName, file.path, e) else e
  }

  private def sort(row: InternalRow): Unit = {
    if (sorter == null) sorter = RowSorting.byKeys(job)
    sorter.insertRow(row.asInstanceOf[UnsafeRow])
  }

  override def commit(): WriterCommitMessage = {
    closeAll()
    if (sorter != null) {
      val rows = sorter.sort()
      while (rows.hasNext) {
        val row = rows.next()
        val key = keyOf(row)
        if (last == null || last.key != key) {
          closeAll()
          last = start(key.copy(), row)
        }
        put(last, row)
      }
      closeAll()
    }
    StagedFiles.message(staging.commit())
  }

  override def abort(): Unit = {
    open.values.asScala.foreach { file =>
      try file.writer.close() catch {
        case NonFatal(e) => logWarning(s"File ${file.path} of an aborted task was not closed", e)
      }
    }
    open.clear()
    staging.abort()
  }

  override def close(): Unit = {
    if (sorter != null) sorter.cleanupResources()
    staging.close()
  }
}

/** A file that a task is writing. */
private class OpenFile(
    val key: UnsafeRow,
    val target: TargetFile,
    val path: String,
    val writer: OutputWriter) {
  var rows = 0L
  var unchecked = 0L
}

object StagingDataWriter {
  /** The name of a file; the service finds the transaction's id in it (`metastore/commit/transaction.py`). */
  private[catalogext] def fileName(
      partitionId: Int, transaction: String, attempt: Long, counter: Int, extension: String): String =
    f"part-$partitionId%05d-$transaction-a$attempt-c$counter%03d$extension"

  private val TransactionId = "(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])".r

  /** Whether a file's name contains a transaction's id: a write of this catalog has given it. */
  private[catalogext] def isOwn(name: String): Boolean = TransactionId.findFirstIn(name).isDefined

  private def sqlConf(job: WriteJob): SQLConf =
    if (job.sqlConf.isEmpty) SQLConf.get
    else {
      val conf = new SQLConf
      (SQLConf.get.getAllConfs ++ job.sqlConf).foreach { case (key, value) => conf.setConfString(key, value) }
      conf
    }

  private def context(job: WriteJob, partitionId: Int): TaskAttemptContext = {
    val jobId = SparkHadoopWriterUtils.createJobID(new Date, 0)
    val taskId = new TaskID(jobId, TaskType.MAP, partitionId)
    val attemptId = new TaskAttemptID(taskId, 0)
    val conf = job.hadoopConf.value
    conf.set("mapreduce.job.id", jobId.toString)
    conf.set("mapreduce.task.id", taskId.toString)
    conf.set("mapreduce.task.attempt.id", attemptId.toString)
    conf.setBoolean("mapreduce.task.ismap", true)
    conf.setInt("mapreduce.task.partition", 0)
    new TaskAttemptContextImpl(conf, attemptId)
  }
}
