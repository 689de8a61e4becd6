package org.apache.spark.sql.catalogext.paths

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.regex.Pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.arrow.vector.{VarCharVector, VectorSchemaRoot}
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic
import org.apache.spark.util.SerializableConfiguration

/**
 * A directory that the service has left to be listed, because its level has too many of them.
 *
 * @param expression what the path of a file relative to the directory matches, behind `passed`
 * @param alternative a path that is missing if no file is found in the directories that have it
 */
case class LeftDirectory(location: String, expression: String, passed: String, alternative: Option[String])

object LeftDirectory {
  /** The directories among the rows of a batch of `paths/plan` from `first` on. */
  def read(batch: VectorSchemaRoot, first: Int): Seq[LeftDirectory] = {
    def texts(name: String): Int => Option[String] = {
      val vector = batch.getVector(name).asInstanceOf[VarCharVector]
      i => Option.when(!vector.isNull(i))(new String(vector.get(i), UTF_8))
    }
    val (locations, expressions, passed, alternatives) =
      (texts("location"), texts("expression"), texts("passed"), texts("alternative"))
    (first until batch.getRowCount).map(i =>
      LeftDirectory(locations(i).get, expressions(i).get, passed(i).get, alternatives(i)))
  }
}

/** What one executor found in one directory. */
case class ListedDirectory(of: LeftDirectory, files: Seq[ListedFile], pruned: Boolean, executor: String)

case class ListedFile(directory: String, name: String, size: Long, modifiedMs: Long)

/** Lists directories by a job on the executors. */
class AdHocListing(spark: SparkSession, path: String, pruner: DirectoryPruner) {
  def list(directories: Seq[LeftDirectory]): Seq[ListedDirectory] = {
    val session = spark.asInstanceOf[classic.SparkSession]
    val context = session.sparkContext
    val lister = new DirectoryLister(new SerializableConfiguration(session.sessionState.newHadoopConf()), pruner)
    val slices = math.min(directories.length, AdHocListing.TasksPerCore * context.defaultParallelism)
    described(context, s"Listing ${directories.length} directories of $path") {
      context.parallelize(directories, slices).map(lister.list).collect().toSeq
    }
  }

  private def described[T](context: SparkContext, what: String)(body: => T): T = {
    val before = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
    context.setJobDescription(what)
    try body finally context.setJobDescription(before)
  }
}

object AdHocListing {
  private val TasksPerCore = 4
}

/** Lists what a pattern matches below a directory, without what the filters rule out. It runs on the executors. */
class DirectoryLister(conf: SerializableConfiguration, pruner: DirectoryPruner) extends Serializable {
  def list(directory: LeftDirectory): ListedDirectory = {
    val expression = Pattern.compile(directory.expression, Pattern.DOTALL)
    val files = ArrayBuffer.empty[ListedFile]
    var pruned = false
    val root = new Path(directory.location)
    val store = root.getFileSystem(conf.value)

    def matched(path: String) = expression.matcher(join(directory.passed, path))

    def walk(at: Path, relative: String): Unit = {
      val found = try store.listStatus(at) catch {
        // Removed since its parent was listed.
        case _: FileNotFoundException => Array.empty[FileStatus]
      }
      for (status <- found; name = status.getPath.getName if !AdHocKeys.isHidden(name)) {
        val path = join(relative, name)
        if (status.isDirectory) {
          val below = matched(s"$path/")
          if (below.matches() || below.hitEnd()) {
            if (pruner.prunes(join(directory.location, path))) pruned = true else walk(status.getPath, path)
          }
        } else if (!AdHocKeys.isMarker(name) && matched(path).matches()) {
          files += ListedFile(join(directory.location, relative), name, status.getLen, status.getModificationTime)
        }
      }
    }

    if (pruner.prunes(directory.location)) pruned = true else walk(root, "")
    ListedDirectory(directory, files.toSeq, pruned, SparkEnv.get.executorId)
  }

  private def join(parent: String, child: String): String =
    if (parent.isEmpty) child else if (child.isEmpty) parent else s"${parent.stripSuffix("/")}/$child"
}
