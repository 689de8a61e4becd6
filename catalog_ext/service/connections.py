"""Connections of a service: counted, limited in number, and closed when a request or the reading of its answer is slow.

uvicorn has no timeout for the first request of a connection, and each received byte restarts its timeout for idle
connections. It also waits forever for a client that does not read its answer. Without these limits a client that has no
token could hold any number of connections, and use up all file descriptors of the process.
"""

from __future__ import annotations

import logging
import resource
import time
from enum import Enum
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from catalog_ext.service.metrics import ClosedFor
from catalog_ext.service.rows_response import UNREAD_S

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from catalog_ext.service.metrics import ServiceMetrics

logger = logging.getLogger(__name__)

HEAD_S, BODY_S = 10.0, 120.0
"""The seconds within which the head of a request, and then its body, have to arrive. A commit's body may have 64 MB."""

HAS_TOKEN = "catalog_ext.has_token"
"""The key in a request's ASGI scope that is set if the request carries a valid token."""

BACKLOG = 128
"""The length of the socket's accept queue: the event loop accepts this many connections before it counts the first."""

_MOST, _LEAST = 4096, 64
_OPEN_FILES = 2 * _MOST
_ARRIVES_S = 1.0
_WARN_EVERY_S = 60.0


class _Waits(Enum):
    """What the service waits for on a connection: the client must send a request's head or body, or read an answer."""

    HEAD = HEAD_S
    BODY = BODY_S
    READER = UNREAD_S


def raise_open_files() -> int:
    """Raise this process's soft limit of open files to 8,192, as far as its hard limit allows; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _OPEN_FILES
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


class Connections:
    """The connections of one service. All methods run on the service's event loop.

    Attributes:
        limit: The greatest number of connections: half of the process's file limit, at most 4,096. SQLite, stores and,
            in a driver, PySpark need the other half.
    """

    def __init__(self, metrics: ServiceMetrics) -> None:
        self._metrics = metrics
        self._open: dict[WatchedProtocol, None] = {}
        self._warned_at = float("-inf")
        self.limit = _MOST

    def protocol(self) -> type[asyncio.Protocol]:
        """Return a protocol class for uvicorn whose instances report to this object."""
        return type("Watched", (WatchedProtocol,), {"watch": self})

    def start(self) -> None:
        """Raise the limit of open files, and derive the limit of connections from it."""
        self.limit = max(_LEAST, min(_MOST, raise_open_files() // 2))
        self._metrics.connections_limit.set(self.limit)

    def opened(self, connection: WatchedProtocol) -> None:
        """Register a new connection. Over the limit, close a connection that waits for its client.

        A client that sends its whole request at once is served even if slow clients use all connections. A connection
        whose request is being answered stays open, unless it has no token and does not read the answer. If all
        connections have to stay open, the new one is closed.
        """
        self._open[connection] = None
        self._metrics.connections.set(len(self._open))
        if len(self._open) > self.limit:
            self.close(self._least_needed(connection), ClosedFor.CROWDED)

    def _least_needed(self, new: WatchedProtocol) -> WatchedProtocol:
        """Return the connection to close when a new one exceeds the limit, the oldest of the first kind that exists.

        The kinds: one whose client has been awaited for a second or more, an idle one, one whose client has been
        awaited for a shorter time. If there are none, the new connection is returned.
        """
        others = [each for each in self._open if each is not new]
        late = time.monotonic() - _ARRIVES_S
        slow = (each for each in others if each.waits is not None and each.waits_since < late)
        idle = (each for each in others if each.waits is None and each.is_idle)
        waiting = (each for each in others if each.waits is not None)
        return next(slow, None) or next(idle, None) or next(waiting, None) or new

    def gone(self, connection: WatchedProtocol) -> None:
        """Remove a connection that was closed."""
        self._open.pop(connection, None)
        self._metrics.connections.set(len(self._open))

    def close(self, connection: WatchedProtocol, reason: ClosedFor) -> None:
        """Close a connection at once, without sending a response."""
        self.gone(connection)
        self._metrics.connection_closed(reason)
        connection.transport.abort()
        if time.monotonic() - self._warned_at > _WARN_EVERY_S:
            self._warned_at = time.monotonic()
            logger.warning(
                "Closed a connection of %s: %s; /metrics counts all of them",
                connection.client,
                "its request did not arrive in time, or its answer was not read"
                if reason is ClosedFor.SLOW
                else f"the service has {self.limit} connections, the most that it may have",
            )


class WatchedProtocol(H11Protocol):
    """uvicorn's protocol with timeouts for the head and the body of each request, and for unread answers.

    Answers to requests with a token have a separate timeout (``RowsResponse``).

    Attributes:
        watch: The connections of the service.
        waits: What the client has to do next; None while a request is answered, and between two requests.
        waits_since: When this wait began, by the monotonic clock.
    """

    watch: Connections
    waits: _Waits | None = None
    waits_since: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the last request was answered, and no new one has begun."""
        cycle = self._cycle
        return cycle is not None and cycle.response_complete

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        # uvicorn annotates the attribute as always set, but sets None before the first request.
        return self.cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._wait_for(_Waits.HEAD)
        self.watch.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to uvicorn, and update the connection's state."""
        before = self._cycle
        super().data_received(data)
        now = self._cycle
        if now is None or now.response_complete:
            # After an early answer the body of its request may still arrive byte by byte, so the timeout stays set.
            self._wait_for(self.waits or _Waits.HEAD)
        elif not now.more_body:
            self._wait_for(None)
        elif now is not before:
            self._wait_for(_Waits.BODY)

    def pause_writing(self) -> None:
        """Start the timeout for unread answers. Clients with a token have none, because they may pipeline requests."""
        super().pause_writing()
        if self.waits is None and (self._cycle is None or not self._cycle.scope.get(HAS_TOKEN)):
            self._wait_for(_Waits.READER)

    def resume_writing(self) -> None:
        """Stop the timeout for unread answers: the client has read."""
        super().resume_writing()
        if self.waits is _Waits.READER:
            self._wait_for(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the service's connections."""
        self._wait_for(None)
        self.watch.gone(self)
        super().connection_lost(exc)

    def _wait_for(self, waits: _Waits | None) -> None:
        if waits is self.waits and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waits = waits
        self.waits_since = time.monotonic()
        if waits is not None:
            self._timer = self.loop.call_later(waits.value, self._too_slow)

    def _too_slow(self) -> None:
        self.watch.close(self, ClosedFor.SLOW)
