"""The threads in which a service runs its calls, with a separate limit for each kind of call.

With one common limit, dozens of repairs, or of commits to a slow store, would block the heartbeats of running writes,
whose leases then expire, and the plans of queries, whose clients give up after ``request-timeout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from catalog_ext.metastore.backports import StrEnum

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
T = TypeVar("T")


class Kind(StrEnum):
    """The kinds of calls."""

    HEARTBEAT = "heartbeat"
    """Extends the lease of a write."""
    SHORT = "short"
    """A short read or write of the index."""
    ROWS = "rows"
    """A call whose answer is rows, until the first batches are ready."""
    BATCHES = "batches"
    """The remaining batches of such an answer."""
    WRITE = "write"
    """Begins or ends a write; the work grows with the write's number of files."""
    PATHS = "paths"
    """Lists a path that a query names instead of a table."""
    LONG = "long"
    """May list or change whole tables: procedures, commands, drops."""


THREADS: Mapping[Kind, int] = {
    Kind.HEARTBEAT: 4, Kind.SHORT: 24, Kind.ROWS: 20, Kind.BATCHES: 20, Kind.WRITE: 24, Kind.PATHS: 16,
    Kind.LONG: 24,
}  # fmt: skip
"""The number of threads for each kind; further calls wait in the order of arrival."""

KINDS: Mapping[str, Kind] = {
    "writes/heartbeat": Kind.HEARTBEAT,
    **dict.fromkeys((
        "ping", "namespaces/list", "namespaces/load", "tables/list", "tables/load", "tables/hive_clauses", "views/list",
        "settings/load", "settings/resolve", "procedures/list", "writes/locations", "writes/stage",
    ), Kind.SHORT),
    **dict.fromkeys((
        "tables/plan", "tables/changes", "tables/metadata", "partitions/list", "partitions/groups",
    ), Kind.ROWS),
    **dict.fromkeys(("paths/load", "paths/plan"), Kind.PATHS),
    **dict.fromkeys(("writes/begin", "writes/commit", "writes/abort", "writes/release"), Kind.WRITE),
    **dict.fromkeys((
        "namespaces/create", "namespaces/alter", "namespaces/drop", "tables/create", "tables/alter", "tables/set_serde",
        "tables/rename", "tables/drop", "partitions/add", "partitions/drop", "partitions/rename", "partitions/relocate",
        "partitions/exchange", "statistics/put", "writes/delete", "writes/load", "views/put", "views/drop",
        "views/rename", "views/refresh", "views/partitions/add", "views/partitions/drop", "procedures/call",
        "events/put",
    ), Kind.LONG),
}  # fmt: skip
"""The kind of each operation, by its name in the contract."""


@dataclass(frozen=True, slots=True)
class ThreadsState:
    """The number of threads that run calls of a kind, the limit of threads, and the number of calls that wait."""

    in_use: int
    limit: int
    waiting: int


class Threads:
    """The threads of one service."""

    def __init__(self) -> None:
        self._limiters: dict[Kind, CapacityLimiter] = {}

    async def run(self, kind: Kind, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread as soon as the limit of its kind permits, and return its result."""
        return await to_thread.run_sync(partial(call, *args, **kwargs), limiter=self._limiter(kind))

    def states(self) -> dict[Kind, ThreadsState]:
        """Return the state of each kind. Call it only on the event loop of the service."""
        return {kind: self._state(kind) for kind in Kind}

    def _state(self, kind: Kind) -> ThreadsState:
        limiter = self._limiter(kind)
        return ThreadsState(limiter.borrowed_tokens, THREADS[kind], limiter.statistics().tasks_waiting)

    def _limiter(self, kind: Kind) -> CapacityLimiter:
        # Created at the first use, because a limiter belongs to the event loop of the server's thread.
        limiter = self._limiters.get(kind)
        if limiter is None:
            limiter = self._limiters[kind] = CapacityLimiter(THREADS[kind])
        return limiter


def kind_of(operation: str) -> Kind:
    """Return the kind of an operation. An unknown operation is ``SHORT``: refusing it takes little time."""
    return KINDS.get(operation, Kind.SHORT)


def kind_of_rest(operation: str) -> Kind:
    """Return the kind whose threads encode an operation's answer after its first batches."""
    kind = kind_of(operation)
    return Kind.BATCHES if kind is Kind.ROWS else kind
