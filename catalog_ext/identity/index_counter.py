"""Detects an index that was restored from a backup: its change counter is lower than the copy in the warehouse.

The copy is written before files are deleted or moved, and by the first change that finds it older than ten minutes. It
is read by the first change of a process, and then by one change in ten minutes. All other changes, also plain appends,
make no request to the store for it.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog_ext.identity.counter_file import COUNTER_ID, Counter, CounterFile, CounterUnknownError
from catalog_ext.identity.record import WAREHOUSE
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexRestoredError,
    LocationNotFoundError,
    StorageError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.tables.incarnations import RESTORING, CounterPosition, position_of
from catalog_ext.metastore.storage.locations import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

logger = logging.getLogger(__name__)

EVERY_S = 600.0
"""Seconds after which the counter is read again. A change that finds it older than this writes it."""

_AGAIN_S = 5.0
_QUERIES_ASK_AGAIN_S = 60.0
_SKIPPED = 1000
"""The number of incarnations to skip if the counter was lost, because the newest incarnation is then unknown."""

_PAUSES_S = (0.1, 0.5, 1.0)
"""Pauses before the index is read again: the nodes of a database cluster may show a commit one after another."""

_RESTORED = (
    "The index {index} is older than what it once wrote: it is at the counter {own}, and {place} says {there}. It was "
    "restored from a backup, copied without its write-ahead log, or its database failed over without its last commits; "
    "or a copy of it is in use. It plans queries, and recovers, vacuums, delivers and writes nothing, because it would "
    "delete files that later commits need. "
)
_INTERRUPTED = (
    "The index {index} was restored, and the command restored has not ended on it: tables may not be repaired yet. It "
    "plans queries, and recovers, vacuums, delivers and writes nothing. "
)
_REMEDY = "Run: catalog-ext --index '{index}' restored --dry-run, and then without --dry-run."


class IndexCounter:
    """The implementation of ``IndexGuard`` by a counter file in the warehouse. Threads may share it."""

    def __init__(self, index: Index, storage: Callable[[], Storage]) -> None:
        self._index = index
        self._file = CounterFile(index, storage)
        self._newest: dict[int, int] = {}  # the newest version of each table that this process has seen
        self._lock = threading.RLock()
        self._inside = threading.local()
        self._behind: IndexRestoredError | None = None
        self._next_look = 0.0
        self._compared_at: float | None = None
        self._advanced_at = float("-inf")
        self._unwritable = False

    @property
    def behind(self) -> IndexRestoredError | None:
        """The error that every change of a restored index raises; None if the index is current, as far as known."""
        return self._behind

    def require_current(self) -> None:
        """Check that the index is not older than its counter in the warehouse.

        Raises:
            IndexRestoredError: The index is older than its counter.
        """
        if self._is_suspended:
            return
        if time.monotonic() >= self._next_look:
            with self._lock:
                if time.monotonic() >= self._next_look:
                    self._look(self._index.properties.load(), writes=True)
        self._refuse_if_behind()

    def advance(self) -> None:
        """Raise the counter in the index and then on the store. An index without a warehouse of its own has no counter.

        If several threads call this at once, a single write serves all of them.

        Raises:
            IndexRestoredError: The index is older than its counter.
            StorageError: The store does not answer, or the counter is missing or malformed.
        """
        called, restoring = time.monotonic(), self._is_suspended
        with self._lock, self.suspended():
            began, recorded = time.monotonic(), self._index.properties.load()
            place = self._file.place(recorded)
            try:
                if restoring or self._advanced_at <= called:
                    self._compare(place, recorded)
                    if place is not None and (self._behind is None or restoring):
                        self._raise(place)
                        self._advanced_at = began
            except (LocationNotFoundError, StorageError) as error:
                if place is None or error.retryable or isinstance(error, CounterUnknownError):
                    raise
                self._note_unwritable(place, error)
        if not restoring:
            self._refuse_if_behind()

    def next_incarnation(self) -> tuple[CounterPosition, int]:
        """Return a counter position above all that the index and the store have, and the highest table id so far.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        recorded = self._index.properties.load()
        own, place = position_of(recorded), self._file.place(recorded)
        try:
            there = None if place is None else self._file.read(place)
        except CounterUnknownError as error:
            logger.warning("%s The next incarnation is %d later.", error.message, _SKIPPED)
            return CounterPosition(own.incarnation + _SKIPPED, own.counter + 1), 0
        known = own if there is None else max(own, there.position)
        return CounterPosition(known.incarnation + 1, known.counter + 1), 0 if there is None else there.tables

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Return a context in which this thread may change an index that is older than its counter."""
        before = self._is_suspended
        self._inside.suspended = True
        try:
            yield
        finally:
            self._inside.suspended = before

    @property
    def _is_suspended(self) -> bool:
        return bool(getattr(self._inside, "suspended", False))

    def look_whether_restored(self) -> None:
        """Compare the index with its counter in the warehouse, and log if the index is older. Nothing is written."""
        with self._lock:
            # An index without a change has no counter yet, and opening it must not create one.
            recorded = self._index.properties.load()
            if COUNTER_ID in recorded:
                self._look(recorded, writes=False)
            self._compared_at = time.monotonic()

    def look_for_query(self) -> None:
        """Compare the index with its counter at the first query, and then once a minute while the index is older.

        While one query compares, others do not wait for it.
        """
        at = self._compared_at
        due = at is None or (self._behind is not None and time.monotonic() - at >= _QUERIES_ASK_AGAIN_S)
        if due and self._lock.acquire(blocking=False):
            try:
                self.look_whether_restored()
            finally:
                self._lock.release()

    def note_version(self, table_id: int, version: int) -> None:
        """Remember the highest version of a table that this process has seen.

        If the index then has a lower version, it was restored: changes are refused until it is repaired.
        """
        newest = self._newest.get(table_id, -1)
        if self._is_suspended:
            return
        if version >= newest:
            self._newest[table_id] = version
            return
        with self.suspended():
            if self._has_gone_back(table_id, newest):
                logger.error(
                    "The table with the id %d was at version %d, and is at version %d now.", table_id, newest, version
                )
                self._index.restoration.require_restoring()
                self._newest.clear()
                self.forget()
                self.look_whether_restored()

    def _has_gone_back(self, table_id: int, newest: int) -> bool:
        """Return whether the index's version of the table is below ``newest``, and not only the caller's older read."""
        for pause_s in (*_PAUSES_S, None):
            try:
                if self._index.tables.load_by_id(table_id).version >= newest:
                    return False
            except TableNotFoundError:
                return False
            if pause_s is not None:
                time.sleep(pause_s)
        return True

    def forget(self) -> None:
        """Compare the index with its counter before the next change, without waiting ten minutes."""
        self._next_look = 0.0

    def state(self) -> tuple[bool | None, str]:
        """Return whether the index is current (None if unknown), and a text with the counters.

        Raises:
            StorageError: The store refuses or does not answer.
            CounterUnknownError: The counter is malformed or missing.
        """
        recorded = self._index.properties.load()
        if WAREHOUSE not in recorded:
            return None, "the index records no warehouse for its counter; run: catalog-ext --warehouse LOCATION adopt"
        if COUNTER_ID not in recorded:
            return True, "no counter yet; the first change writes it"
        with self._lock:
            there = self._compare(self._file.place(recorded), recorded)
        if self._behind is not None:
            return False, self._behind.message
        said = "no counter" if there is None else _shown(there.position)
        return True, f"at the counter {_shown(position_of(recorded))}, the store at {said}"

    def _look(self, recorded: Mapping[str, str], *, writes: bool) -> None:
        with self.suspended():
            pause, place = EVERY_S, self._file.place(recorded)
            try:
                there = self._compare(place, recorded)
                if place is not None and there is not None and there.is_older_than(EVERY_S) and self._behind is None:
                    if writes:
                        self._raise(place)
                    else:
                        # Do not wait: the first change writes the counter.
                        pause = 0.0
            except (LocationNotFoundError, StorageError) as error:
                if error.retryable:
                    logger.warning("Whether the index was put back is not known yet: %s", error.message)
                    pause = _AGAIN_S
                elif place is not None:
                    self._note_unwritable(place, error)
            self._next_look = time.monotonic() + (_AGAIN_S if self._behind is not None else pause)

    def _raise(self, place: Location) -> None:
        self._index.incarnations.raise_counter()
        self._file.write(place)

    def _compare(self, place: Location | None, recorded: Mapping[str, str]) -> Counter | None:
        """Return the counter on the store, and record whether the index is older."""
        if RESTORING in recorded:
            self._set_behind(_INTERRUPTED.format(index=self._index.url))
            return None
        # Read the store before the index: a counter is in the index before it is on the store, so a current index is
        # never behind.
        there = None if place is None else self._file.read(place)
        recorded = self._index.properties.load()
        if there is None or not there.is_ahead_of(recorded):
            self._behind = None
            return there
        said = {"place": shown(str(place)), "own": _shown(position_of(recorded)), "there": _shown(there.position)}
        self._set_behind(_RESTORED.format(index=self._index.url, **said))
        return there

    def _refuse_if_behind(self) -> None:
        if self._behind is not None:
            # Create a new error each time: an error object that is raised again and again keeps the frames of all its
            # tracebacks.
            raise IndexRestoredError(self._behind.message, self._behind.parameters)

    def _set_behind(self, problem: str) -> None:
        """Record why the index is older than its counter; logged once."""
        if self._behind is None:
            message = problem + _REMEDY.format(index=self._index.url)
            self._behind = IndexRestoredError(message, {"index": self._index.url})
            logger.error("%s", message)

    def _note_unwritable(self, place: Location, error: CatalogExtError) -> None:
        if not self._unwritable:
            self._unwritable = True
            logger.warning(
                "The counter %s cannot be kept, so that the index would not learn that it was restored: %s",
                shown(str(place)),
                error.message,
            )


def _shown(position: CounterPosition) -> str:
    return f"{position.incarnation}.{position.counter}"
