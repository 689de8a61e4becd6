"""Connections to one metastore server, and what its failures mean."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from catalog_ext.metastore.errors import CatalogExtError, MetastoreRefusedError
from catalog_ext.metastore.hive.thrift.uris import Address, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_IDLE_CONNECTIONS = 8
# Thrift prints what it raises; whoever wants both configures logging.
logging.getLogger("thrift").addHandler(logging.NullHandler())


class ConnectionPool:
    """Connections to one server, each used by one thread at a time.

    Args:
        address: The server.
        connect_timeout: Seconds that it has to accept a connection.
        call_timeout: Seconds that it has to answer a call.
        lost: Is called when a connection is lost, or none is to be had: whoever answers next may be another server.
    """

    def __init__(
        self, address: Address, *, connect_timeout: float, call_timeout: float, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._address = address
        self._lost = lost
        self._connect_ms = connect_timeout * 1000
        self._call_ms = call_timeout * 1000
        self._lock = threading.Lock()
        self._idle: list[tuple[HMSClient, TSocket]] = []

    def call(self, function: Callable[[HMSClient], Result], what: str, *, table: str = "") -> Result:
        """Return what ``function`` answers for a connected client.

        Errors that the metastore declares for its calls come to ``function`` first; those
        that it lets through come out as ``MetastoreRefusedError``.

        Args:
            function: One or more calls, all of them reads or the last one the only write.
            what: What is being done, for the message: ``"creating the table"``.
            table: The table or database that it is done to.

        Raises:
            MetastoreUnavailableError: The server does not accept a connection, or it broke off.
            MetastoreRefusedError: The server answered with an error.
        """
        client, socket = self._take()
        keep = False
        try:
            answer = function(client)
            keep = True
        except CatalogExtError:
            keep = True
            raise
        except (TTransportException, OSError, EOFError) as error:
            self._lost()
            raise unavailable([self._address], f"{what} broke off ({_reason(error)})", request_sent=True) from error
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
            self._give_back(client, socket, keep=keep)
        return answer

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they come back to a full pool."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, socket in idle:
            socket.close()

    def _take(self) -> tuple[HMSClient, TSocket]:
        while True:
            with self._lock:
                pair = self._idle.pop() if self._idle else None
            if pair is None:
                return self._open()
            if pair[1].isOpen():  # a server that was restarted has closed it
                return pair
            self._lost()

    def drop_closed(self) -> None:
        """Give up the idle connections that the server has closed, and tell of it if there are any."""
        with self._lock:
            kept = [pair for pair in self._idle if pair[1].isOpen()]
            closed, self._idle = len(self._idle) - len(kept), kept
        if closed:
            self._lost()

    def _open(self) -> tuple[HMSClient, TSocket]:
        socket = TSocket(self._address.host, self._address.port, socket_keepalive=True)
        socket.setTimeout(self._connect_ms)
        client = HMSClient(iprot=TBinaryProtocolAccelerated(TBufferedTransport(socket, rbuf_size=1 << 16)))
        try:
            client.open()
        except (TTransportException, OSError) as error:
            self._lost()
            problem = f"no connection ({_reason(error)})"
            raise unavailable([self._address], problem, request_sent=False) from error
        socket.setTimeout(self._call_ms)
        return client, socket

    def _give_back(self, client: HMSClient, socket: TSocket, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append((client, socket))
                return
        socket.close()

    def _refused(self, what: str, table: str, reason: str) -> MetastoreRefusedError:
        named = f" {table}" if table else ""
        return MetastoreRefusedError(
            f"The Hive Metastore at {self._address} refused {what}{named}: {reason}.",
            {"uris": str(self._address), "table": table},
        )


def server_message(error: TException) -> str:
    """Return what the server says, without the full stop at its end."""
    text = str(getattr(error, "message", None) or error).strip().rstrip(".")
    return text if len(text) <= 500 else f"{text[:500]}…"


def is_unknown_method(error: TApplicationException) -> bool:
    """Return whether the server is of a release without the method called."""
    return bool(error.type == TApplicationException.UNKNOWN_METHOD)


def _reason(error: Exception) -> str:
    cause = getattr(error, "inner", None) or getattr(error, "message", None) or error
    return str(cause) or type(error).__name__
