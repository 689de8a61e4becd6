package org.apache.spark.sql.catalogext.write

import java.util.concurrent.{ConcurrentHashMap, ExecutorService}

import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcCallContext, RpcEndpoint, RpcEndpointRef, RpcEnv}
import org.apache.spark.sql.catalogext.service.ServiceClient
import org.apache.spark.sql.catalogext.service.Json._
import org.apache.spark.util.{RpcUtils, ThreadUtils}

/**
 * Answers the tasks of a write, on the driver, where the files of a partition go: that of a table in which more
 * partitions than a plan holds have a location of their own. Each is asked of the service once.
 *
 * What goes over the wire are the JDK's types only, whoever loaded our classes.
 */
private class AskedLocations(override val rpcEnv: RpcEnv, client: ServiceClient, transaction: String)
  extends RpcEndpoint with Logging {
  import AskedLocations._

  // A message loop is Spark's own; a service that is away is waited for here.
  private val threads: ExecutorService =
    ThreadUtils.newDaemonCachedThreadPool(s"catalog-ext-locations-$transaction", AtOnce, keepAliveSeconds = 10)
  private val known = new ConcurrentHashMap[String, String]

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case partition: String => threads.execute { () =>
      try context.reply(known.computeIfAbsent(partition, ask(_))) catch {
        case NonFatal(e) =>
          logWarning(s"Where partition $partition of transaction $transaction lies could not be asked", e)
          context.sendFailure(new SparkException(e.getMessage))
      }
    }
  }

  private def ask(partition: String): String = {
    val request = obj("transaction" -> text(transaction), "partitions" -> arr(Seq(text(partition))))
    client.call("writes/locations", request).stringMap("partition_directories").getOrElse(partition, Usual)
  }

  override def onStop(): Unit = threads.shutdownNow()
}

/** The tasks' side. */
object AskedLocations {
  private val AtOnce = 8
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
    Some(driver.askSync[String](partition)).filter(_ != Usual)
  }
}
