package org.apache.spark.sql.catalogext.service

import java.io.{InputStream, IOException, PushbackInputStream}
import java.net.{ConnectException, URI}
import java.net.http.{HttpClient, HttpConnectTimeoutException, HttpRequest, HttpResponse}
import java.net.http.HttpRequest.BodyPublishers
import java.net.http.HttpResponse.{BodyHandler, BodyHandlers}
import java.time.Duration
import java.util.concurrent.{ExecutionException, TimeoutException, TimeUnit}

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalogext.service.Json._

/**
 * Client of the service's operations. It exists on the driver only, and is thread-safe.
 *
 * A request is retried if it never reached the service, or if it is idempotent. With several addresses the next one is
 * tried, and used from then on.
 *
 * @param uri the service's address, or several comma-separated addresses of services of one index
 * @param readToken returns the token; called at once, and again when the service refuses the last token
 * @param requestTimeout how long the service may be silent
 * @param patience how long requests are retried
 */
class ServiceClient(val uri: String, readToken: () => String, requestTimeout: Duration, patience: Duration) {
  import ServiceClient._

  @volatile private var token = readToken()
  private val requests = ThreadLocal.withInitial[Long](() => 0L)
  private val addresses = ServiceAddresses.of(uri)
  private val repeated = new RepeatedRequests(addresses, patience)
  private val http = endingIdle(HttpClient.newBuilder())
    .version(HttpClient.Version.HTTP_1_1)
    .connectTimeout(ConnectTimeout)
    .build()

  /** Number of requests of this thread, retries included. */
  def requestsOfThread: Long = requests.get()

  /**
   * The JSON answer of an operation. Raises ServiceException for an error answer.
   *
   * @param limited whether the answer must arrive within the request timeout; otherwise the service must send
   *                keepalives within it
   * @param patient whether the request is retried for as long as a restart of the service may take
   */
  def call(operation: String, body: JsonNode, limited: Boolean = true, patient: Boolean = true): JsonNode =
    repeated(operation, RepeatedRequests.isRepeatable(operation, body), patient) { address =>
      val asked = new Asked(address, operation, body)
      if (limited) {
        val response = send(asked, BodyHandlers.ofByteArray(), limited)
        asked.parse(response.statusCode(), response.body())
      } else opened(asked)((status, input) => asked.parse(status, input.readAllBytes()))
    }

  /**
   * The Arrow answer of `operation`, consumed by `read`, which starts anew if the request is retried. A query of the
   * index may take long; the service sends keepalives until the answer ends.
   */
  def stream[T](operation: String, body: JsonNode)(read: InputStream => T): T =
    repeated(operation, RepeatedRequests.isRepeatable(operation, body), patient = true) { address =>
      val asked = new Asked(address, operation, body)
      opened(asked) { (status, input) =>
        val rows = new PushbackInputStream(input)
        val first = Iterator.continually(rows.read()).find(_ != ' ').get
        if (first >= 0) rows.unread(first)
        if (status != 200 || first == '{') throw asked.refusal(status, rows.readAllBytes())
        read(rows)
      }
    }

  private def opened[T](asked: Asked)(read: (Int, InputStream) => T): T = {
    val response = send(asked, BodyHandlers.ofInputStream(), limited = false)
    val input = new WatchedInputStream(response.body(), requestTimeout)
    try read(response.statusCode(), input) catch {
      case e: BrokenAnswerException => throw new PassingFailure(asked.brokenOff(e), sent = true)
      // The answer is complete but invalid; a retry would return the same answer.
      case e: IOException => throw asked.notOurs(response.statusCode(), Some(e))
    } finally input.close()
  }

  private def send[T](asked: Asked, handler: BodyHandler[T], limited: Boolean): HttpResponse[T] = {
    val used = token
    val response = sendAs(used, asked, handler, limited)
    // After a 401 read the token again: a restarted service may have written another token to the token file.
    val current = if (response.statusCode() == 401) readToken() else used
    if (current == used) response
    else {
      response.body() match {
        case input: InputStream => input.close()
        case _ =>
      }
      token = current
      sendAs(current, asked, handler, limited)
    }
  }

  private def sendAs[T](token: String, asked: Asked, handler: BodyHandler[T], limited: Boolean): HttpResponse[T] = {
    val request = HttpRequest.newBuilder(URI.create(s"${asked.address}/v1/${asked.operation}"))
      .header("Authorization", s"Bearer $token")
      .header("Content-Type", "application/json")
      .header(ContractHeader, Contract)
      .POST(BodyPublishers.ofByteArray(mapper.writeValueAsBytes(asked.body)))
    if (addresses.several) request.header(IndexHeader, addresses.index.getOrElse(NoIndexYet))
    SessionUser.encoded.foreach(request.header(SessionUser.Header, _))
    TraceContext.current.foreach(request.header(TraceContext.Header, _))
    if (!limited) request.header(KeepaliveHeader, (requestTimeout.toMillis / 4.0 / 1000).toString)
    val response = try exchange(request.build(), handler) catch {
      case e: ConnectException => throw new PassingFailure(gone(e), sent = false)
      case e: HttpConnectTimeoutException => throw new PassingFailure(gone(e), sent = false)
      // Try another service of the index, which may answer if this one hangs.
      case e: TimeoutException if addresses.several => throw new PassingFailure(asked.tooSlow(e), sent = true)
      case e: TimeoutException => throw asked.tooSlow(e)
      case e: IOException if addresses.several => throw new PassingFailure(asked.brokenOff(e), sent = true)
      case e: IOException => throw new PassingFailure(gone(e), sent = true)
    }
    addresses.answered = true
    if (addresses.index.isEmpty) response.headers().firstValue(IndexHeader).ifPresent(id => addresses.index = Some(id))
    response
  }

  private def exchange[T](request: HttpRequest, handler: BodyHandler[T]): HttpResponse[T] = {
    // This timeout covers the whole body of an answer that is read as bytes; HttpRequest's own timeout ends with the
    // headers.
    requests.set(requests.get() + 1)
    val future = http.sendAsync(request, handler)
    try future.get(requestTimeout.toMillis, TimeUnit.MILLISECONDS) catch {
      case e: ExecutionException => throw e.getCause
      case e @ (_: TimeoutException | _: InterruptedException) =>
        future.cancel(true)
        throw e
    }
  }

  private def gone(cause: IOException): Throwable = {
    val who = if (addresses.several) s"None of the catalog-ext services at ${addresses.names} answers; start one of them"
      else s"The catalog-ext service at $uri does not answer; start it"
    ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
      s"$who (catalog-ext serve, or a new session made with catalog_ext.configure) or correct the catalog's option " +
        s"'uri'. ${describe(cause)}", Map("uri" -> uri), Some(cause))
  }

  private def describe(e: Throwable): String =
    s"(${e.getClass.getSimpleName}${Option(e.getMessage).fold("")(": " + _)})"

  /** An operation that was requested from one address. It converts the answer to JSON or to an error. */
  private class Asked(val address: String, val operation: String, val body: JsonNode) {
    def brokenOff(cause: IOException): Throwable =
      ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
        s"The answer of the catalog-ext service at $address to '$operation' broke off: ${cause.getMessage}. " +
          (if (RepeatedRequests.isRepeatable(operation, body)) "Nothing of it was used; run the statement again."
          else "What was asked for may be done all the same: look at the table, or at its history, before it is run again."),
        Map("uri" -> address), Some(cause))

    def parse(status: Int, body: Array[Byte]): JsonNode = {
      if (status != 200) throw refusal(status, body)
      val node = try mapper.readTree(body) catch {
        case e: JsonProcessingException => throw notOurs(status, Some(e))
      }
      // Before keepalives the service has sent the status 200, so an error can follow in the body of a successful
      // answer.
      if (node.path("error").has("code")) throw refusal(status, body) else node
    }

    def refusal(status: Int, body: Array[Byte]): Throwable = {
      val error = try Option(mapper.readTree(body)).flatMap(node => Option(node.get("error"))) catch {
        case _: JsonProcessingException => None
      }
      (status, error) match {
        case (401, _) =>
          new ServiceException(ConnectorErrors.Unauthorized, analysis = false,
            s"The catalog-ext service at $address refused the token. Give the token of the running service in the " +
              "catalog's option 'token' or 'token-file', or in the environment variable CATALOG_EXT_TOKEN.",
            Map("uri" -> address), retryable = false)
        // The service has another index than this client and has not executed the request. The next address may have
        // the right index.
        case (Misdirected, Some(node)) => new PassingFailure(exceptionOf(node), sent = false)
        case (_, Some(node)) =>
          val found = exceptionOf(node)
          // A conflict is final for this commit, although the error is retryable: only the whole statement may be
          // repeated.
          if (found.retryable && !found.is("CONFLICT")) new PassingFailure(found, sent = true) else found
        // A proxy answers with these statuses while the service behind it restarts.
        case (502 | 503 | 504, None) => new PassingFailure(unavailable(status), sent = true)
        case _ => notOurs(status, None)
      }
    }

    private def exceptionOf(error: JsonNode): ServiceException = new ServiceException(
      Condition(error.string("code"), error.string("sqlstate")), isAnalysis(error.string("kind")),
      error.string("message"), error.stringMap("parameters"), error.field("retryable").asBoolean())

    private def isAnalysis(kind: String): Boolean = kind match {
      case "analysis" => true
      case "runtime" => false
      case other => throw ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
        s"The catalog-ext service at $address answered with an error of the kind '$other', which this connector does not " +
          "know: they are of different releases.", Map("uri" -> address))
    }

    def notOurs(status: Int, cause: Option[Throwable]): Throwable =
      ConnectorErrors.runtime(ConnectorErrors.ServiceAnswer,
        s"$address answered '$operation' with status $status and a body that is not of the catalog-ext contract. " +
          "Check that the catalog's option 'uri' names a catalog-ext service of this release.",
        Map("uri" -> address), cause)

    private def unavailable(status: Int): Throwable =
      ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
        s"What answers at $address gave '$operation' the status $status, as proxies do when the catalog-ext service behind " +
          "them does not answer. Start the service, or look at its log.", Map("uri" -> address))

    def tooSlow(cause: Throwable): Throwable =
      ConnectorErrors.runtime(ConnectorErrors.ServiceUnavailable,
        s"The catalog-ext service at $address did not answer '$operation' within ${requestTimeout.toSeconds} s; look at its " +
          "log, or raise the catalog's option 'request-timeout'.", Map("uri" -> address), Some(cause))
  }
}

object ServiceClient {
  private val IdleSeconds = "jdk.httpclient.keepalive.timeout"

  /**
   * Closes connections that were idle for 30 s, as Java 21 does by default. Java 17 keeps them for 20 minutes, but load
   * balancers and NAT drop them earlier, and the next request would get no answer.
   */
  private def endingIdle(builder: HttpClient.Builder): HttpClient.Builder = {
    // Set the property before the first connection, when Java reads it.
    if (System.getProperty(IdleSeconds) == null) System.setProperty(IdleSeconds, "30")
    builder
  }

  private val ConnectTimeout = Duration.ofSeconds(10)
  /** Requests a keepalive blank at this interval, in seconds, until the answer is ready. */
  private val KeepaliveHeader = "X-Keepalive"
  private val ContractHeader = "X-Catalog-Ext-Contract"
  private val IndexHeader = "X-Catalog-Ext-Index"
  private val NoIndexYet = "?"
  private val Misdirected = 421
  /** The contract's number in `docs/spec/service.md`, by which a service recognizes a connector of another release. */
  private val Contract = "2"
}
