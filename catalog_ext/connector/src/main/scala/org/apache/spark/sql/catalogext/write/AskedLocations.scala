package org.apache.spark.sql.catalogext.write

import java.util.ArrayList
import java.util.concurrent.{ConcurrentHashMap, ExecutorService, LinkedBlockingQueue}

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEndpointRef, RpcEnv, RpcTimeout}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.util.{RpcUtils, ThreadUtils}

/**
 * Answers the tasks of a write, on the driver, where the files of a partition go: that of a table in which more
 * partitions than a plan holds have a location of their own. Each is asked of the service once; what is asked while a
 * request is under way goes with the next one, so that there are as many requests as it takes and not one a partition.
 *
 * What goes over the wire are the JDK's types only, whichever class loader has our classes.
 */
private class AskedLocations(override val rpcEnv: RpcEnv, client: ServiceClient, transaction: String)
  extends RpcEndpoint with Logging {
  import AskedLocations._

  // A message loop is Spark's own; a service that is away is waited for here.
  private val thread: ExecutorService =
    ThreadUtils.newDaemonSingleThreadExecutor(s"catalog-ext-locations-$transaction")
  private val known = new ConcurrentHashMap[String, String]
  private val waiting = new LinkedBlockingQueue[Question]

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case partition: String => Option(known.get(partition)) match {
      case Some(place) => context.reply(place)
      case None =>
        waiting.add(Question(partition, context))
        thread.execute(() => answerSome())
    }
  }

  private def answerSome(): Unit = {
    val taken = new ArrayList[Question]
    waiting.drainTo(taken, AtOnce)
    val questions = taken.asScala.toSeq
    try {
      val open = questions.map(_.partition).distinct.filterNot(known.containsKey)
      if (open.nonEmpty) {
        val request = obj("transaction" -> text(transaction), "partitions" -> arr(open.map(text)))
        val places = client.call("writes/locations", request).stringMap("partition_directories")
        open.foreach(partition => known.put(partition, places.getOrElse(partition, Usual)))
      }
      questions.foreach(question => question.context.reply(known.get(question.partition)))
    } catch {
      case NonFatal(e) =>
        logWarning(s"Where ${questions.size} partitions of transaction $transaction lie could not be asked", e)
        questions.foreach(_.context.sendFailure(new SparkException(e.getMessage)))
    }
  }

  override def onStop(): Unit = thread.shutdownNow()
}

/** The tasks' side. */
object AskedLocations {
  private val AtOnce = 1000
  /** Longer than the service is waited for: Spark's own time for an answer is shorter. */
  private val Patience = new RpcTimeout(10.minutes, "the time for the driver to learn where a partition lies")

  private case class Question(partition: String, context: RpcCallContext)

  /** The answer about a partition that is where its name says. */
  private val Usual = ""

  private def name(transaction: String): String = s"catalog-ext-locations-$transaction"

  /** Answers the transaction's tasks until the endpoint is stopped. */
  def serve(client: ServiceClient, transaction: String): RpcEndpointRef = {
    val env = SparkEnv.get.rpcEnv
    env.setupEndpoint(name(transaction), new AskedLocations(env, client, transaction))
  }

  /** The directory of the partition's files, where it is not the usual one. */
  def of(transaction: String, partition: String): Option[String] = {
    val env = SparkEnv.get
    val driver = RpcUtils.makeDriverRef(name(transaction), env.conf, env.rpcEnv)
    Some(driver.askSync[String](partition, Patience)).filter(_ != Usual)
  }
}
