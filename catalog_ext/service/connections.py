"""Connections of a service: capped, counted, and closed where a request or the reading of its answer takes too long.

uvicorn has no limit of time before the first request, and every byte ends its limit for idle connections. It waits
without a limit for a client that does not read. A client without a token could hold any number of connections, and with
them all files that the process may open.
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
"""Seconds in which the head of a request has to be complete, and then its body. A commit's body may have 64 MB."""

HAS_TOKEN = "catalog_ext.has_token"
"""The key of a request's scope that is set where the request carries a token."""

BACKLOG = 128
"""Connections that the event loop accepts at once, before it has counted one of them."""

_MOST, _LEAST = 4096, 64
_OPEN_FILES = 2 * _MOST
_ARRIVES_S = 1.0
_WARN_EVERY_S = 60.0


class _Waits(Enum):
    """What a connection waits for."""

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
    """The connections of one service. Everything is called on its event loop.

    Attributes:
        limit: How many there may be: half of the files that the process may open, 4,096 at most. SQLite, stores and,
            in a driver, PySpark need the other half.
    """

    def __init__(self, metrics: ServiceMetrics) -> None:
        self._metrics = metrics
        self._open: dict[WatchedProtocol, None] = {}
        self._warned_at = float("-inf")
        self.limit = _MOST

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the class of protocols that report to this object."""
        return type("Watched", (WatchedProtocol,), {"watch": self})

    def start(self) -> None:
        """Make room for connections: raise the limit of open files, and set the limit of connections by it."""
        self.limit = max(_LEAST, min(_MOST, raise_open_files() // 2))
        self._metrics.connections_limit.set(self.limit)

    def opened(self, connection: WatchedProtocol) -> None:
        """Register a new connection; over the limit, close one that waits for its client.

        A client that sends a whole request at once is served even while others occupy all places. Connections whose
        request is being answered are kept, unless they have no token and do not read; if all are kept, the new one
        is closed.
        """
        self._open[connection] = None
        self._metrics.connections.set(len(self._open))
        if len(self._open) > self.limit:
            self.close(self._least_needed(connection), ClosedFor.CROWDED)

    def _least_needed(self, new: WatchedProtocol) -> WatchedProtocol:
        """Return the connection to close for a new one: a slow one, an idle one, one that waits, or the new one.

        Within each kind the oldest is chosen. A request that has waited for less than a second may just be arriving.
        """
        others = [each for each in self._open if each is not new]
        late = time.monotonic() - _ARRIVES_S
        slow = (each for each in others if each.waits is not None and each.waits_since < late)
        idle = (each for each in others if each.waits is None and each.is_idle)
        waiting = (each for each in others if each.waits is not None)
        return next(slow, None) or next(idle, None) or next(waiting, None) or new

    def gone(self, connection: WatchedProtocol) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)
        self._metrics.connections.set(len(self._open))

    def close(self, connection: WatchedProtocol, reason: ClosedFor) -> None:
        """Close a connection at once, without an answer."""
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
    """uvicorn's protocol, with limits of time for the head and the body of each request, and for unread answers.

    Answers to requests with a token have a limit of their own (``RowsResponse``).

    Attributes:
        watch: The connections of the service.
        waits: What the connection waits for; None while a request is answered, and between two requests.
        waits_since: When it began to wait for that, by the monotonic clock.
    """

    watch: Connections
    waits: _Waits | None = None
    waits_since: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the last request was answered, and no other has begun."""
        cycle = self._cycle
        return cycle is not None and cycle.response_complete

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        # uvicorn's annotation says that there always is one, and sets None before the first request.
        return self.cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait_for(_Waits.HEAD)
        self.watch.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, and update the connection's state."""
        before = self._cycle
        super().data_received(data)
        now = self._cycle
        if now is None or now.response_complete:
            # After an answer that did not wait for the request's body, more of that body may arrive, byte by byte.
            self._wait_for(self.waits or _Waits.HEAD)
        elif not now.more_body:
            self._wait_for(None)
        elif now is not before:
            self._wait_for(_Waits.BODY)

    def pause_writing(self) -> None:
        """Begin to wait for the client to read, unless it has a token: requests in a row fill any buffer."""
        super().pause_writing()
        if self.waits is None and (self._cycle is None or not self._cycle.scope.get(HAS_TOKEN)):
            self._wait_for(_Waits.READER)

    def resume_writing(self) -> None:
        """End that wait: the client has read."""
        super().resume_writing()
        if self.waits is _Waits.READER:
            self._wait_for(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
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
