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
 * Answers tasks of a write, on the driver, with the directory of a partition. It serves tables with too many relocated
 * partitions for one plan. Each partition is requested from the service once. Questions that arrive during a request
 * are batched into the next one, so there are few requests.
 *
 * Messages contain JDK types only, so that both sides can deserialize them with any class loader.
 */
private class AskedLocations(override val rpcEnv: RpcEnv, client: ServiceClient, transaction: String)
  extends RpcEndpoint with Logging {
  import AskedLocations._

  // A separate thread for requests, because waiting for an unavailable service would block the message loop, which
  // Spark shares with other endpoints.
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

/** The side of the tasks: asks the driver for the directory of a partition. */
object AskedLocations {
  private val AtOnce = 1000
  /** Longer than the driver waits for the service; Spark's default RPC timeout is shorter. */
  private val Patience = new RpcTimeout(10.minutes, "the time for the driver to learn where a partition lies")

  private case class Question(partition: String, context: RpcCallContext)

  /** The answer for a partition in its default directory. */
  private val Usual = ""

  private def name(transaction: String): String = s"catalog-ext-locations-$transaction"

  /** Answers the transaction's tasks until the endpoint is stopped. */
  def serve(client: ServiceClient, transaction: String): RpcEndpointRef = {
    val env = SparkEnv.get.rpcEnv
    env.setupEndpoint(name(transaction), new AskedLocations(env, client, transaction))
  }

  /** The directory of the partition's files if it is not the default one. */
  def of(transaction: String, partition: String): Option[String] = {
    val env = SparkEnv.get
    val driver = RpcUtils.makeDriverRef(name(transaction), env.conf, env.rpcEnv)
    Some(driver.askSync[String](partition, Patience)).filter(_ != Usual)
  }
}
