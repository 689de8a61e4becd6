"""The counter of an index in its warehouse, by which an index learns that it was put back to an earlier time.

Rules. The counter is written before files are deleted or moved, and by the first change that finds it older than ten
minutes. It is read by the first change of a process, and by one change in ten minutes from then on. Every other change,
a plain append among them, costs no request for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from catalog_ext.conf.home import WAREHOUSE
from catalog_ext.metastore.errors import CatalogExtError, IndexRestoredError, LocationNotFoundError, StorageError
from catalog_ext.metastore.index.tables.incarnations import Position
from catalog_ext.metastore.storage.locations import Location, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.storage.store import Storage

logger = logging.getLogger(__name__)

COUNTER_FILE = "_catalog_ext_counter_"
"""What its name begins with, before its id; directly in the warehouse, hidden for Hive and Spark."""

COUNTER_ID = "index.counter.id"
"""The id of the counter's file. The index has it from its first change on, so that every backup of it has it."""

EVERY_S = 600.0
"""Seconds after which the counter is read again, and written if a change finds it as old."""

_AGAIN_S = 5.0
_LARGEST = 4096
_RESTORED = (
    "The index {index} is older than what it once wrote: it is at the counter {own}, and {place} says {there}. It was "
    "restored from a backup, copied without its write-ahead log, or its database failed over without its last commits. "
    "It plans queries, and recovers, vacuums, delivers and writes nothing, because it would delete files that later "
    "commits need. Run: catalog-ext --index '{index}' restored --dry-run, and then without --dry-run."
)


@dataclass(frozen=True, slots=True)
class Counter:
    """What the store says of an index.

    Attributes:
        incarnation: The newest incarnation.
        counter: The greatest counter.
        tables: The greatest number that a table had.
        written_at_ms: When that was written, in milliseconds since 1970, by the writer's clock.
    """

    incarnation: int
    counter: int
    tables: int
    written_at_ms: int

    @property
    def position(self) -> Position:
        """How far the index had come."""
        return Position(self.incarnation, self.counter)


class IndexCounter:
    """Guards an index: see ``IndexGuard``. Threads may share it.

    Args:
        index: The open index.
        storage: Returns the stores.
    """

    def __init__(self, index: Index, storage: Callable[[], Storage]) -> None:
        self._index = index
        self._storage = storage
        self._lock = threading.RLock()
        self._inside = threading.local()
        self._behind: IndexRestoredError | None = None
        self._next_look = 0.0
        self._advanced_at = float("-inf")
        self._unwritable = False

    @property
    def behind(self) -> IndexRestoredError | None:
        """Why the index changes nothing; None where it is current, as far as is known."""
        return self._behind

    def require_current(self) -> None:
        """Return unless the index is older than what it once wrote.

        Raises:
            IndexRestoredError: It is.
        """
        if getattr(self._inside, "suspended", False):
            return
        if time.monotonic() >= self._next_look:
            with self._lock:
                if time.monotonic() >= self._next_look:
                    self._look(writes=True)
        self._refuse_if_behind()

    def advance(self) -> None:
        """Raise the counter here and then on the store; an index without a warehouse of its own has none.

        Of threads that wait for the store at once one raises it for all.

        Raises:
            IndexRestoredError: The index is older than what it once wrote.
            StorageError: The store does not answer.
        """
        called = time.monotonic()
        with self._lock, self.suspended():
            place = self._place()
            if place is None:
                return
            try:
                if self._advanced_at <= called:
                    self._advance(place)
            except (LocationNotFoundError, StorageError) as error:
                if error.retryable or _is_garbled(error):
                    raise
                self._note_unwritable(place, error)
        self._refuse_if_behind()

    def read(self) -> Counter | None:
        """Return what the store says; None where it says nothing.

        Raises:
            StorageError: The store refuses or does not answer, or what is there is no counter.
        """
        place = self._place()
        return None if place is None else self._read(place)

    def write(self) -> None:
        """Write the counter that the index has; of several writers the last one leaves the greatest.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        place = self._place()
        if place is not None:
            self._write(place)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Return a context in which this thread may change an index that was put back."""
        before = getattr(self._inside, "suspended", False)
        self._inside.suspended = True
        try:
            yield
        finally:
            self._inside.suspended = before

    def look_whether_restored(self) -> None:
        """Compare the index with the store, and log if it is older than what it once wrote."""
        with self._lock:
            # Who only opens an index writes nothing into it.
            if COUNTER_ID in self._index.properties():
                self._look(writes=False)

    def forget(self) -> None:
        """Look again before the next change."""
        self._next_look = 0.0

    def _place(self) -> Location | None:
        """Return where the counter is; None for an index that has no warehouse of its own, and so no counter."""
        recorded = self._index.properties()
        warehouse = recorded.get(WAREHOUSE)
        if warehouse is None:
            return None
        number = recorded.get(COUNTER_ID) or self._index.add_properties({COUNTER_ID: uuid4().hex})[COUNTER_ID]
        return Location.parse(warehouse).join(f"{COUNTER_FILE}{number}")

    def _look(self, *, writes: bool) -> None:
        """Compare the index with the store; one that only opens the index leaves an old counter to the next change."""
        with self.suspended():
            pause, place = EVERY_S, self._place()
            try:
                if place is not None:
                    there = self._compare(place)
                    old = there is not None and time.time() * 1000 - there.written_at_ms > EVERY_S * 1000
                    if old and self._behind is None and writes:
                        self._raise(place)
                    elif old:
                        pause = 0.0
            except (LocationNotFoundError, StorageError) as error:
                if error.retryable:
                    logger.warning("Whether the index was put back is not known yet: %s", error.message)
                    pause = _AGAIN_S
                elif place is not None:
                    self._note_unwritable(place, error)
            self._next_look = time.monotonic() + (_AGAIN_S if self._behind is not None else pause)

    def _refuse_if_behind(self) -> None:
        if self._behind is not None:
            # Anew: an error that is raised again and again keeps the frames of all its tracebacks.
            raise IndexRestoredError(self._behind.message, self._behind.parameters)

    def _advance(self, place: Location) -> None:
        began = time.monotonic()
        self._compare(place)
        if self._behind is None:
            self._raise(place)
            self._advanced_at = began

    def _raise(self, place: Location) -> None:
        self._index.raise_counter()
        self._write(place)

    def _read(self, place: Location) -> Counter | None:
        data = self._storage().read_file(place, _LARGEST)
        return None if data is None else _parsed(place, data)

    def _write(self, place: Location) -> None:
        storage = self._storage()
        while True:
            position = self._index.position()
            found = Counter(
                position.incarnation, position.counter, self._index.newest_table_number(), int(time.time() * 1000)
            )
            storage.create_directory(place.parent)
            storage.replace_file(place, json.dumps(asdict(found)).encode("ascii"))
            # A slower writer may have put its counter over one that another process wrote meanwhile.
            if self._index.position().counter == found.counter:
                return

    def _compare(self, place: Location) -> Counter | None:
        """Return what the store says, and note whether the index is behind it."""
        # In this order: a counter is in the index before it is on the store.
        there, own = self._read(place), self._index.position()
        if there is None or there.position <= own:
            self._behind = None
        elif self._behind is None:
            self._behind = self._restored(place, own, there.position)
            logger.error("%s", self._behind.message)
        return there

    def _restored(self, place: Location, own: Position, there: Position) -> IndexRestoredError:
        said = (f"{one.incarnation}.{one.counter}" for one in (own, there))
        text = _RESTORED.format(
            index=self._index.url, place=shown(str(place)), **dict(zip(("own", "there"), said, strict=True))
        )
        return IndexRestoredError(text, {"index": self._index.url, "counter": str(place)})

    def _note_unwritable(self, place: Location, error: CatalogExtError) -> None:
        if not self._unwritable:
            self._unwritable = True
            logger.warning(
                "The counter %s cannot be kept, so that the index would not learn that it was restored: %s",
                shown(str(place)),
                error.message,
            )


def _is_garbled(error: CatalogExtError) -> bool:
    return isinstance(error.__cause__, (ValueError, TypeError, KeyError, RecursionError))


def _parsed(place: Location, data: bytes) -> Counter:
    try:
        fields = json.loads(data)
        numbers = [int(fields[name]) for name in ("incarnation", "counter", "tables", "written_at_ms")]
        if min(numbers) < 0:
            raise ValueError("a number is negative")
        return Counter(*numbers)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StorageError(
            f"The file {shown(str(place))} has the counter of the index, and cannot be read: {error}. Remove the "
            "file: the next clean-up writes it anew. If the index was restored, run catalog-ext restored then.",
            {"location": str(place)},
        ) from error
