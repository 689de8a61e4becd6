"""Connections to one metastore server, and the translation of its failures."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from catalog_ext.metastore.errors import CatalogExtError, MetastoreAccessError, MetastoreError, MetastoreRefusedError
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.uris import Address, unavailable
from catalog_ext.metastore.runtime.measures import MetastoreCalled, Subject, emit, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from thrift.transport.TSocket import TSocket

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_IDLE_CONNECTIONS = 8
# The thrift library logs each error that it also raises. Without this handler the errors would go to standard error
# twice; a user who wants the lines can configure logging.
logging.getLogger("thrift").addHandler(logging.NullHandler())


class _Protocol(TBinaryProtocolAccelerated):  # type: ignore[misc]
    """A thrift protocol that raises ``TProtocolException``, not Python's errors, for answers that are not thrift."""

    _fast_decode: Callable[..., object] | None

    def __init__(self, transport: object) -> None:
        super().__init__(transport)
        decode = self._fast_decode
        if decode is None:
            # Without the library's C extension its Python code raises ``TProtocolException`` itself.
            return

        def decoded(*arguments: object) -> object:
            try:
                return decode(*arguments)
            except UnicodeError:
                # A Hive engine wrote a name that is not UTF-8. The caller reports the invalid name.
                raise
            except (TypeError, ValueError, OverflowError) as error:
                raise TProtocolException(TProtocolException.INVALID_DATA, str(error)) from error

        self._fast_decode = decoded

    def readMessageBegin(self) -> tuple[str, int, int]:
        """Return the name, the type and the sequence number of an answer."""
        try:
            name, kind, number = super().readMessageBegin()
        except UnicodeError as error:
            raise TProtocolException(TProtocolException.INVALID_DATA, str(error)) from error
        return name, kind, number


class Connection:
    """An open connection to a metastore server."""

    def __init__(self, client: HMSClient, socket: TSocket) -> None:
        self.client = client
        self.socket = socket
        self.answered = False

    def close(self) -> None:
        """Close the connection; the client also frees its state."""
        self.client.close()


class ConnectionPool:
    """Connections to one server, each used by one thread at a time.

    Args:
        address: The server.
        access: TLS, Kerberos and user of the connections.
        connect_timeout: Seconds that the server has to accept a connection.
        call_timeout: Seconds that the server has to answer a call.
        lost: Called when a connection is lost or cannot be opened: the next connection may reach another server.
    """

    def __init__(
        self, address: Address, *, connect_timeout: float, call_timeout: float, lost: Callable[[], None] = lambda: None,
        access: Access = PLAIN,
    ) -> None:  # fmt: skip
        self._address = address
        self._access = access
        self._lost = lost
        self._connect_ms = connect_timeout * 1000
        self._call_ms = call_timeout * 1000
        self._lock = threading.Lock()
        self._refused_user: str | None = None
        self._idle: list[Connection] = []

    def call(self, function: Callable[[HMSClient], Result], what: str, *, table: str = "") -> Result:
        """Call ``function`` with a connected client and return its result.

        Errors that the metastore declares for its calls reach ``function`` first; errors that ``function`` does not
        catch become ``MetastoreRefusedError``.

        Args:
            function: One or more calls. At most the last one may be a write, since a failure reports only whether the
                server may have received the request.
            what: The activity, for messages: ``"creating the table"``.
            table: The table or database that the calls concern.

        Raises:
            MetastoreUnavailableError: The server does not accept a connection, or the connection broke off.
            MetastoreAccessError: The server was reached, and the authentication failed.
            MetastoreRefusedError: The server answered with an error.
        """
        started = time.monotonic()
        try:
            return self._call(function, what, table)
        except MetastoreError as error:
            failed(Subject.METASTORE, error)
            raise
        finally:
            emit(MetastoreCalled(time.monotonic() - started))

    def _call(self, function: Callable[[HMSClient], Result], what: str, table: str) -> Result:
        connection = self._take()
        keep = False
        try:
            answer = function(connection.client)
            keep = connection.answered = True
        except CatalogExtError:
            keep = True
            raise
        except (TTransportException, OSError, EOFError) as error:
            self._lost()
            hint = "" if connection.answered else self._access.hint
            named = f"{what} {table}" if table else what
            problem = f"{named} broke off ({_reason(error)}){hint}"
            raise unavailable([self._address], problem, request_sent=True) from error
        except TApplicationException as error:
            problem = "it does not know the call" if is_unknown_method(error) else "it failed"
            raise self._refused(what, table, f"{problem} ({error.message})") from error
        except TProtocolException as error:
            raise self._refused(what, table, "its answer is not a metastore's") from error
        except UnicodeError as error:
            raise self._refused(what, table, f"a name is not valid UTF-8 ({error})") from error
        except TException as error:
            keep = True
            raise self._refused(what, table, server_message(error)) from error
        finally:
            self._give_back(connection, keep=keep)
        return answer

    def close(self) -> None:
        """Close the idle connections; busy ones are closed when they return to a full pool."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._open()
            if connection.socket.isOpen():  # a server that was restarted has closed the connection
                return connection
            connection.close()
            self._lost()

    def drop_closed(self) -> None:
        """Drop the idle connections that the server has closed, and call ``lost`` if there are any."""
        with self._lock:
            kept = [connection for connection in self._idle if connection.socket.isOpen()]
            closed = [connection for connection in self._idle if connection not in kept]
            self._idle = kept
        for connection in closed:
            connection.close()
        if closed:
            self._lost()

    def _open(self) -> Connection:
        socket = self._access.socket(self._address)
        socket.setTimeout(self._connect_ms)
        transport = self._access.transport(socket, self._address)
        connection = Connection(HMSClient(iprot=_Protocol(transport)), socket)
        try:
            connection.client.open()
        except MetastoreAccessError:
            self._lost()
            raise
        except (TTransportException, OSError) as error:
            self._lost()
            problem = f"no connection ({_reason(error)})"
            raise unavailable([self._address], problem, request_sent=False) from error
        if self._access.user is not None and self._access.kerberos is None:
            self._introduce(connection, self._access.user)
        socket.setTimeout(self._call_ms)
        return connection

    def _introduce(self, connection: Connection, user: str) -> None:
        """Send the user's name. A server with impersonation accesses the store as that user.

        A server that does not know the call, or refuses it, is used without it, as Hive's own client does.
        """
        try:
            connection.client.set_ugi(user, [])
        except (TTransportException, TProtocolException, UnicodeError, OSError, EOFError) as error:
            connection.close()
            self._lost()
            problem = f"the first call, which says who we are, broke off ({_reason(error)}){self._access.hint}"
            raise unavailable([self._address], problem, request_sent=False) from error
        except TException as error:
            if self._refused_user is None:
                logger.warning(
                    "The Hive Metastore at %s does not take %r for its user (%s), and goes on without; "
                    "metastore.set-ugi=false leaves the call out.",
                    self._address, user, server_message(error),
                )  # fmt: skip
            self._refused_user = user
            return
        connection.answered = True

    def _give_back(self, connection: Connection, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _refused(self, call: str, table: str, reason: str) -> MetastoreRefusedError:
        named = f" {table}" if table else ""
        return MetastoreRefusedError(
            f"The Hive Metastore at {self._address} refused {call}{named}: {reason}.",
            {"uris": str(self._address), "table": table},
        )


def server_message(error: TException) -> str:
    """Return the server's message, without the full stop at its end."""
    text = str(getattr(error, "message", None) or error).strip().rstrip(".")
    return text if len(text) <= 500 else f"{text[:500]}…"


def is_unknown_method(error: TApplicationException) -> bool:
    """Return whether the error means that the server's release does not have the called method."""
    return bool(error.type == TApplicationException.UNKNOWN_METHOD)


def _reason(error: Exception) -> str:
    cause = getattr(error, "inner", None) or getattr(error, "message", None) or error
    return str(cause) or type(error).__name__
