"""A lock in Hive's lock manager: requests it, waits for it, keeps it alive with a heartbeat thread, and releases it."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    CatalogExtError,
    HiveLockLostError,
    HiveLocksRefusedError,
    HiveLockTimeoutError,
    MetastoreError,
    MetastoreRefusedError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.mapping.model import LockState
from catalog_ext.metastore.hive.thrift.uris import was_request_sent
from catalog_ext.metastore.model.durations import duration_s
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.mapping.model import LockComponent, ShownLock
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore


logger = logging.getLogger(__name__)

TIMEOUT_SETTING = "hive.txn.timeout"
_DEFAULT_TIMEOUT_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_LONGEST_AWAY_S = 60.0
LONGEST_JOIN_S = 1.0
"""The longest time that a release waits for a running heartbeat call, in seconds."""

_SHOWN = 5
_LONGEST = 128
"""The most characters that Hive's lock tables store for a name."""


class HiveLock:
    """A Hive lock on several tables or partitions: all are locked, or none.

    Args:
        metastore: The metastore whose lock manager is used.
        components: The tables and partitions to lock.
        agent: The purpose, shown by ``SHOW LOCKS``; a random mark is appended.
        wait_s: The longest time to wait for the lock, in seconds.
        pause: Waits the given number of seconds.
        clock: Returns the time, in seconds.
    """

    def __init__(
        self, metastore: HiveMetastore, components: Sequence[LockComponent], agent: str, wait_s: float, *,
        pause: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._metastore = metastore
        # Sort the components. The server locks them one after the other, so two processes with different orders could
        # deadlock.
        self._components = sorted(components)
        # Other processes may request equal locks: a recovery, or a repeated commit. The random mark identifies this
        # request, so that only its own lock is released.
        mark = f" {secrets.token_hex(4)}"
        self._agent = agent[: _LONGEST - len(mark)] + mark
        self._wait_s = wait_s
        self._pause = pause
        self._clock = clock
        self._number: int | None = None
        self._timeout_s = _DEFAULT_TIMEOUT_S
        self._seen = 0.0
        self._lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="catalog-ext-hive-lock", daemon=True)

    def acquire(self) -> None:
        """Wait until the lock is held; from then on a thread sends heartbeats.

        Raises:
            HiveLockTimeoutError: Other holders have not released their locks in time.
            HiveLockLostError: The server has ended the request.
            HiveLocksRefusedError: The server does not support locks.
            MetastoreError: The server does not answer.
        """
        give_up = self._clock() + self._wait_s
        self._seen = self._clock()
        self._number, state = self._requested()
        try:
            self._wait(state, give_up)
            self._timeout_s = self._server_timeout_s()
        except BaseException:
            self.release()
            raise
        self._thread.start()

    def _requested(self) -> tuple[int, int]:
        try:
            return self._metastore.lock(self._components, current_user(), socket.gethostname()[:_LONGEST], self._agent)
        except MetastoreRefusedError as error:
            raise HiveLocksRefusedError(
                f"{error.message} The write needs Hive locks on {self._what}, because 'hive-locks' is on. The "
                "metastore needs Hive's transaction tables (schematool creates them); 'hive-locks' = 'none' writes "
                "without locks.",
                error.parameters,
            ) from error
        except MetastoreUnavailableError as error:
            if was_request_sent(error):
                self._give_up_unanswered()
            raise

    def _give_up_unanswered(self) -> None:
        """Release the lock of a request whose answer was lost; otherwise the lock would stay until its timeout."""
        try:
            # SHOW LOCKS lists each component of a request; a set has each request number once.
            for number in {found.number for found in self._shown() if found.agent == self._agent}:
                self._metastore.unlock(number)
        except MetastoreError as error:
            logger.warning(
                "A Hive lock on %s may stay, without an owner, until its timeout: %s", self._what, error.message
            )

    def _wait(self, state: int, give_up: float) -> None:
        assert self._number is not None, "it was asked for"
        pause = _FIRST_PAUSE_S
        while state == LockState.WAITING:
            left = give_up - self._clock()
            if left <= 0:
                raise self._timed_out()
            self._pause(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            state = self._looked(self._number)
        if state != LockState.ACQUIRED:
            raise self._gone("has ended the request")

    def _looked(self, number: int) -> int:
        """Return the state of the lock request; while the server does not answer, the request counts as waiting.

        The server keeps the request in its database. If this process stopped waiting now, the request would stay there
        and block later requests.
        """
        began = self._clock()
        try:
            state = self._metastore.check_lock(number)
        except MetastoreUnavailableError as error:
            if began - self._seen > _LONGEST_AWAY_S:
                raise
            logger.info(
                "The metastore is away while lock %d of %s is waited for: %s", number, self._what, error.message
            )
            return LockState.WAITING
        self._seen = began
        return state

    def _timed_out(self) -> HiveLockTimeoutError:
        try:
            shown = self._shown()
        except MetastoreError as error:
            return self._timeout(f"an unknown holder ({error.message})")
        blocking = {one.blocked_by for one in shown if one.number == self._number}
        holders = [one for one in shown if one.number in blocking]
        # Show all holders if the server did not name the blocking lock, or if the blocking lock is on the database.
        holders = holders or [one for one in shown if one.is_held and one.number != self._number]
        words = "; ".join(map(str, holders[:_SHOWN]))
        return self._timeout(words or "a holder that is gone by now")

    def _timeout(self, holder: str) -> HiveLockTimeoutError:
        first = self._components[0]
        return HiveLockTimeoutError(
            f"Hive's locks of {self._what} were not granted within {self._wait_s:g} s: they are held by {holder}. "
            "Nothing was changed. Run the statement again when the holder has ended, raise 'hive-locks.wait', or, if "
            "the holder is dead, end it in Hive (ABORT TRANSACTIONS, or wait for hive.txn.timeout).",
            {"table": f"{first.database}.{first.table}", "partition": first.partition, "holder": holder[:500]},
        )

    def _shown(self) -> list[ShownLock]:
        tables = sorted({(one.database, one.table) for one in self._components})
        return [one for database, table in tables for one in self._metastore.show_locks(database, table)]

    def _server_timeout_s(self) -> float:
        """Return the time without a heartbeat after which the server ends a lock, in seconds."""
        try:
            said = duration_s(self._metastore.config_value(TIMEOUT_SETTING, f"{_DEFAULT_TIMEOUT_S:g}s"))
        except MetastoreError as error:
            # A server may refuse to show its settings. Hive's own default is then the best estimate.
            logger.info("The metastore does not say what %s is: %s", TIMEOUT_SETTING, error.message)
            return _DEFAULT_TIMEOUT_S
        return said or _DEFAULT_TIMEOUT_S

    def _keep_alive(self) -> None:
        while not self._lost and not self._ended.wait(self._timeout_s / 4):
            self._give_sign()

    def _give_sign(self) -> None:
        number = self._number
        if number is None:
            # ``release`` has just released the lock, which then needs no heartbeat.
            return
        # Take the time before the call: the server counts the timeout from when it gets the heartbeat, which is later.
        began = self._clock()
        try:
            self._metastore.heartbeat_lock(number)
            self._seen = began
        except HiveLockLostError:
            self._lost = True
            self._warn("The metastore has ended the lock %d of %s.", number)
        except CatalogExtError as error:
            self._warn("The lock %d of %s could not be kept alive: %s", number, error.message)
        except Exception:
            # Only log the error: the next heartbeat may succeed. If this thread ended, no other thread would send
            # heartbeats.
            logger.warning("The lock %d of %s could not be kept alive.", number, self._what, exc_info=True)

    def _warn(self, what: str, number: int, *more: str) -> None:
        # Do not warn about a lock that was released in the meantime.
        if not self._ended.is_set():
            logger.warning(what, number, self._what, *more)

    def confirm(self) -> None:
        """Check that the lock is still held.

        A server that does not answer keeps the lock until its timeout.

        Raises:
            HiveLockLostError: The lock was lost, or its state is unknown.
        """
        if not self._lost:
            self._give_sign()
        if self._lost or self._clock() - self._seen > 0.8 * self._timeout_s:
            raise self._gone("has ended it" if self._lost else "has not answered for as long as it keeps one")

    def _gone(self, what_happened: str) -> HiveLockLostError:
        return HiveLockLostError(
            f"Hive's locks of {self._what} (lock {self._number}) were lost before the commit: the metastore "
            f"{what_happened}. The uncommitted changes are undone; run the statement again.",
            {"lock": str(self._number), "table": f"{self._components[0].database}.{self._components[0].table}"},
        )

    def release(self) -> None:
        """Release the lock. A server that cannot be reached ends the lock at its timeout."""
        self._ended.set()
        if self._thread.ident is not None:
            # Wait for a running heartbeat only briefly: the server may be silent, and the write that needed the lock
            # has ended.
            self._thread.join(LONGEST_JOIN_S)
        number, self._number = self._number, None
        if number is None or self._lost:
            return
        try:
            self._metastore.unlock(number)
        except HiveLockLostError:
            logger.info("The metastore has ended the lock %d of %s before it was given up.", number, self._what)
        except Exception as error:  # noqa: BLE001 -- what it was for is done, or has failed with an error of its own
            logger.warning(
                "The lock %d of %s could not be given up, and is held until its time is over: %s",
                number,
                self._what,
                error,
            )

    @property
    def _what(self) -> str:
        shown = ", ".join(f"{one} ({one.lock_type.name})" for one in self._components[:_SHOWN])
        more = len(self._components) - _SHOWN
        return f"{shown} and {more} more" if more > 0 else shown
