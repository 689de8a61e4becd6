"""Hive's locks in memory, and the failures of a lock server."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import HiveLockLostError, MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.model import LockState, LockType, ShownLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.hive.mapping.model import LockComponent

NO_TABLES = "Unable to update transaction database: Table/View 'NEXT_LOCK_ID' does not exist"


@dataclass
class Request:
    """One request: what it locks, for whom, and whether it is held."""

    components: tuple[LockComponent, ...]
    user: str
    host: str
    agent: str
    held: bool = False
    blocked_by: int | None = None
    beats: int = 0


@dataclass
class LockTable:
    """The locks of a metastore, by Hive's rules for tables without transactions; requests wait in their order.

    Attributes:
        refuses: It has no tables of locks.
        timeout: What it says that ``hive.txn.timeout`` is.
        requests: Those that are held, or wait.
        history: Every request that was ever made.
    """

    refuses: bool = False
    timeout: str = "300s"
    requests: dict[int, Request] = field(default_factory=dict)
    history: list[Request] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _mutex: threading.RLock = field(default_factory=threading.RLock)

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        if self.refuses:
            raise MetastoreRefusedError(f"The Hive Metastore refused Hive's locks: {NO_TABLES}.")
        with self._mutex:
            number = next(self._numbers)
            self.requests[number] = request = Request(tuple(components), user, host, agent)
            self.history.append(request)
            return number, self._state(number)

    def check_lock(self, number: int) -> int:
        with self._mutex:
            self._known(number)
            return self._state(number)

    def heartbeat_lock(self, number: int) -> None:
        with self._mutex:
            self._known(number).beats += 1

    def unlock(self, number: int) -> None:
        with self._mutex:
            self._known(number)
            del self.requests[number]

    def show(self, database: str, table: str) -> list[ShownLock]:
        with self._mutex:
            return [
                ShownLock(
                    number, one.database, one.table, one.partition,
                    LockState.ACQUIRED if request.held else LockState.WAITING, one.lock_type.name, request.user,
                    request.host, request.agent, 0, request.blocked_by,
                )
                for number, request in self.requests.items()
                for one in request.components
                if (one.database, one.table) == (database, table)
            ]  # fmt: skip

    def end_all(self) -> None:
        """Their time is over: the server forgets all of them."""
        with self._mutex:
            self.requests.clear()

    def _known(self, number: int) -> Request:
        if number not in self.requests:
            raise HiveLockLostError(f"The metastore does not know the lock {number} any more.")
        return self.requests[number]

    def _state(self, number: int) -> LockState:
        request = self.requests[number]
        before = [n for n, other in self.requests.items() if n < number and _meet(request, other)]
        request.held, request.blocked_by = not before, before[0] if before else None
        return LockState.ACQUIRED if request.held else LockState.WAITING


def _meet(one: Request, other: Request) -> bool:
    return any(
        (a.database, a.table) == (b.database, b.table)
        and (not a.partition or not b.partition or a.partition == b.partition)
        and {a.lock_type, b.lock_type} != {LockType.SHARED_READ}
        for a in one.components
        for b in other.components
    )
