package org.apache.spark.sql.catalogext.service

import java.io.{InputStream, IOException}
import java.net.{ConnectException, URI}
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.net.http.HttpRequest.BodyPublishers
import java.net.http.HttpResponse.{BodyHandler, BodyHandlers}
import java.time.Duration
import java.util.concurrent.{ExecutionException, TimeoutException, TimeUnit}

import scala.annotation.tailrec

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.Json._


/**
 * Calls the service's operations. It lives on the driver only and is safe to share between threads.
 *
 * `readToken` is asked for the token at once, and again when the service refuses the one it gave before.
 */
class ServiceClient(val uri: String, readToken: () => String, requestTimeout: Duration) {
  import ServiceClient._

  @volatile private var token = readToken()
  private val http = HttpClient.newBuilder()
    .version(HttpClient.Version.HTTP_1_1)
    .connectTimeout(ConnectTimeout)
    .build()

  /**
   * The JSON answer of an operation. Raises ServiceException for any status but 200. `limited` says whether the
   * request timeout applies.
   */
  def call(operation: String, body: JsonNode, limited: Boolean = true): JsonNode =
    parse(operation, send(operation, body, BodyHandlers.ofByteArray(), if (limited) Some(requestTimeout) else None))

  /** The Arrow answer of `operation`, consumed by `read`. `limited` says whether the request timeout applies. */
  def stream[T](operation: String, body: JsonNode, limited: Boolean = true)(read: InputStream => T): T = {
    val timeout = if (limited) Some(requestTimeout) else None
    val response = send(operation, body, BodyHandlers.ofInputStream(), timeout)
    val input = response.body()
    try {
      if (response.statusCode() != 200) throw refusal(operation, response.statusCode(), input.readAllBytes())
      read(input)
    } catch {
      case e: IOException =>
        throw ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
          s"The answer of the catalog-ext service at $uri to '$operation' broke off: ${e.getMessage}. " +
            "Nothing of it was used; run the statement again.", Map("uri" -> uri), Some(e))
    } finally input.close()
  }

  private def parse(operation: String, response: HttpResponse[Array[Byte]]): JsonNode = {
    if (response.statusCode() != 200) throw refusal(operation, response.statusCode(), response.body())
    try mapper.readTree(response.body()) catch {
      case e: JsonProcessingException => throw notOurs(operation, response.statusCode(), Some(e))
    }
  }

  private def refusal(operation: String, status: Int, body: Array[Byte]): Throwable = {
    val error = try Option(mapper.readTree(body)).flatMap(node => Option(node.get("error"))) catch {
      case _: JsonProcessingException => None
    }
    (status, error) match {
      case (401, _) =>
        new ServiceException(ConnectorErrors.Unauthorized, analysis = false,
          s"The catalog-ext service at $uri refused the token. Give the token of the running service in the " +
            "catalog's option 'token' or 'token-file', or in the environment variable CATALOG_EXT_TOKEN.",
          Map("uri" -> uri), retryable = false)
      case (_, Some(node)) =>
        new ServiceException(Condition(node.string("code"), node.string("sqlstate")), isAnalysis(node.string("kind")),
          node.string("message"), node.stringMap("parameters"), node.field("retryable").asBoolean())
      case _ => notOurs(operation, status, None)
    }
  }

  private def isAnalysis(kind: String): Boolean = kind match {
    case "analysis" => true
    case "runtime" => false
    case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"The catalog-ext service at $uri answered with an error of the kind '$other', which this connector does not " +
        "know: they are of different releases.", Map("uri" -> uri))
  }

  private def notOurs(operation: String, status: Int, cause: Option[Throwable]): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
      s"$uri answered '$operation' with status $status and a body that is not of the catalog-ext contract. " +
        "Check that the catalog's option 'uri' names a catalog-ext service of this release.",
      Map("uri" -> uri), cause)

  private def send[T](
      operation: String,
      body: JsonNode,
      handler: BodyHandler[T],
      timeout: Option[Duration]): HttpResponse[T] = {
    val used = token
    val response = sendAs(used, operation, body, handler, timeout)
    // A standing service may have been started again with another token since the file was read.
    val current = if (response.statusCode() == 401) readToken() else used
    if (current == used) response
    else {
      response.body() match {
        case input: InputStream => input.close()
        case _ =>
      }
      token = current
      sendAs(current, operation, body, handler, timeout)
    }
  }

  private def sendAs[T](
      token: String,
      operation: String,
      body: JsonNode,
      handler: BodyHandler[T],
      timeout: Option[Duration]): HttpResponse[T] = {
    val request = HttpRequest.newBuilder(URI.create(s"$uri/v1/$operation"))
      .header("Authorization", s"Bearer $token")
      .header("Content-Type", "application/json")
      .POST(BodyPublishers.ofByteArray(mapper.writeValueAsBytes(body)))
      .build()

    @tailrec def attempt(number: Int): HttpResponse[T] = {
      // Only a refused connection is tried again: nothing of the request can have been acted upon.
      val answer = try Right(exchange(request, handler, timeout)) catch {
        case e: ConnectException => Left(e)
        case e: TimeoutException => throw tooSlow(operation, timeout.get, e)
        case e: IOException => throw gone(e)
      }
      answer match {
        case Right(response) => response
        case Left(refused) if number >= Attempts => throw gone(refused)
        case Left(_) =>
          Thread.sleep(RetryPauseMillis * number)
          attempt(number + 1)
      }
    }
    attempt(1)
  }

  private def exchange[T](request: HttpRequest, handler: BodyHandler[T], timeout: Option[Duration]): HttpResponse[T] = {
    // HttpRequest's own timeout ends with the headers; this one covers a JSON answer's body as well.
    val future = http.sendAsync(request, handler)
    try {
      timeout.fold(future.get())(limit => future.get(limit.toMillis, TimeUnit.MILLISECONDS))
    } catch {
      case e: ExecutionException => throw e.getCause
      case e @ (_: TimeoutException | _: InterruptedException) =>
        future.cancel(true)
        throw e
    }
  }

  private def gone(cause: IOException): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
      s"The catalog-ext service at $uri does not answer; start it (catalog-ext serve, or a new session made with " +
        s"catalog_ext.configure) or correct the catalog's option 'uri'. ${describe(cause)}",
      Map("uri" -> uri), Some(cause))

  private def tooSlow(operation: String, limit: Duration, cause: Throwable): Throwable =
    ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
      s"The catalog-ext service at $uri did not answer '$operation' within ${limit.toSeconds} s; look at its log, " +
        "or raise the catalog's option 'request-timeout'.", Map("uri" -> uri), Some(cause))

  private def describe(e: Throwable): String =
    s"(${e.getClass.getSimpleName}${Option(e.getMessage).fold("")(": " + _)})"
}

object ServiceClient {
  private val ConnectTimeout = Duration.ofSeconds(10)
  private val Attempts = 4
  private val RetryPauseMillis = 100L
}
