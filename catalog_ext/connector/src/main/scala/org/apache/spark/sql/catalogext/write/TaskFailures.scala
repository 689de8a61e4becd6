package org.apache.spark.sql.catalogext.write

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkContext, TaskContext, TaskKilledException}
import org.apache.spark.util.CollectionAccumulator

/**
 * Why tasks of a write have failed, for the driver: Spark notifies a writer that its job did, and not why.
 *
 * What goes over the wire are texts in a class of Spark's, whichever loader has ours.
 */
class TaskFailures private (said: CollectionAccumulator[String]) extends Serializable {
  /** In a task: has the driver hear why it fails, if it does. */
  def watch(): Unit = Option(TaskContext.get()).foreach(_.addTaskFailureListener((_: TaskContext, error: Throwable) =>
    error match {
      case _: TaskKilledException | _: InterruptedException => ()
      case other => said.add(TaskFailures.text(other))
    }))

  /** On the driver: why the last one failed. */
  def last: Option[String] = said.value.asScala.lastOption
}

object TaskFailures {
  private val Longest = 500

  def of(context: SparkContext): TaskFailures = {
    val said = new CollectionAccumulator[String]
    said.register(context, None, countFailedValues = true)
    new TaskFailures(said)
  }

  private def text(error: Throwable): String = {
    val message = Option(error.getMessage).getOrElse(error.getClass.getSimpleName)
    message.linesIterator.nextOption().getOrElse("").take(Longest)
  }
}
