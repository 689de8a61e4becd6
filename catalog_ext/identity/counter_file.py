"""The counter's file in the warehouse: its name, its content, and when it proves that an index is old."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from catalog_ext.identity.record import WAREHOUSE
from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.index.tables.incarnations import COUNTER_MARK, CounterPosition, position_of
from catalog_ext.metastore.storage.locations import Location, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.storage.store import Storage

COUNTER_FILE = "_catalog_ext_counter_"
"""What its name begins with, before its id; directly in the warehouse, hidden for Hive and Spark."""

COUNTER_ID = "index.counter.id"
"""The id of the counter's file. The index has it from its first change on, so that every backup of it has it."""

COUNTER_WRITTEN = "index.counter.written"
"""The property of an index that has written its counter once: a counter that is missing then was lost."""

_LARGEST = 4096
_PAUSES_S = (0.2, 0.8)
"""Waits before a missing counter is asked for again: on HDFS the file is absent while another process replaces it."""

_ANEW = (
    "If the index was not restored, have it written anew: catalog-ext --index '{index}' --warehouse '{warehouse}' "
    "adopt. If it was: catalog-ext --index '{index}' restored."
)


class CounterUnknownError(StorageError):
    """The counter is garbled, or is gone although the index has written it.

    Remedy: See the message: `catalog-ext adopt` writes it anew, `catalog-ext restored` is for an index that was
    restored.
    """


@dataclass(frozen=True, slots=True)
class Counter:
    """What the store says of an index.

    Attributes:
        incarnation: The newest incarnation.
        counter: The greatest counter.
        tables: The greatest number that a table had.
        written_at_ms: When that was written, in milliseconds since 1970, by the writer's clock.
        mark: The random text that the index got with this counter; empty until the counter was raised once.
    """

    incarnation: int
    counter: int
    tables: int
    written_at_ms: int
    mark: str

    @classmethod
    def of(cls, recorded: Mapping[str, str], newest_table: int) -> Counter:
        """Return the counter of an index with these properties, written now."""
        own = position_of(recorded)
        now_ms = int(time.time() * 1000)
        return cls(own.incarnation, own.counter, newest_table, now_ms, recorded.get(COUNTER_MARK, ""))

    @property
    def position(self) -> CounterPosition:
        """The position of the index that wrote this."""
        return CounterPosition(self.incarnation, self.counter)

    def is_older_than(self, seconds: float) -> bool:
        """Return whether the writer's clock and this one are so far apart, in either direction.

        A time in the future was written by a clock that was wrong, and says nothing about the file's age.
        """
        return abs(time.time() * 1000 - self.written_at_ms) > seconds * 1000

    def is_ahead_of(self, recorded: Mapping[str, str]) -> bool:
        """Return whether an index with these properties lacks something that was written with this counter.

        Two copies of one index, each in use, can raise it to the same number, but never with the same mark.
        """
        own = position_of(recorded)
        return self.position > own or (self.position == own and self.mark != recorded.get(COUNTER_MARK, ""))

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(asdict(self)).encode("ascii")


class CounterFile:
    """Reads and writes the counter of an index in its warehouse."""

    def __init__(self, index: Index, storage: Callable[[], Storage]) -> None:
        self._index = index
        self._storage = storage

    def place(self, recorded: Mapping[str, str]) -> Location | None:
        """Return where the counter is; None for an index that has no warehouse of its own, and so no counter."""
        warehouse = recorded.get(WAREHOUSE)
        if warehouse is None:
            return None
        number = recorded.get(COUNTER_ID) or self._index.properties.add_missing({COUNTER_ID: uuid4().hex})[COUNTER_ID]
        return Location.parse(warehouse).join(f"{COUNTER_FILE}{number}")

    def read(self, place: Location) -> Counter | None:
        """Return what the store says; None where it says nothing, and the index has never written there.

        Raises:
            StorageError: The store refuses or does not answer.
            CounterUnknownError: What is there is no counter, or the counter is gone.
        """
        for pause_s in (*_PAUSES_S, None):
            data = self._storage().read_file(place, _LARGEST)
            if data is not None:
                return self._parsed(place, data)
            if COUNTER_WRITTEN not in self._index.properties.load():
                return None
            if pause_s is not None:
                time.sleep(pause_s)
        raise self._unknown(place, "is gone: it was deleted, or the warehouse is not mounted")

    def write(self, place: Location) -> None:
        """Write the counter that the index has; of several writers the last one leaves the greatest.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        storage = self._storage()
        while True:
            recorded = self._index.properties.load()
            found = Counter.of(recorded, self._index.incarnations.newest_table_number())
            storage.create_directory(place.parent)
            storage.replace_file(place, found.to_json())
            if COUNTER_WRITTEN not in recorded:
                self._index.properties.add_missing({COUNTER_WRITTEN: "true"})
            # A slower writer may have put its counter over one that another process wrote meanwhile.
            if self._index.incarnations.position() == found.position:
                return

    def _parsed(self, place: Location, data: bytes) -> Counter:
        try:
            fields = json.loads(data)
            names = ("incarnation", "counter", "tables", "written_at_ms")
            incarnation, counter, tables, written_at_ms = (int(fields[name]) for name in names)
            if min(incarnation, counter, tables, written_at_ms) < 0:
                raise ValueError("a number is negative")
            return Counter(incarnation, counter, tables, written_at_ms, str(fields["mark"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise self._unknown(place, f"cannot be read: {error}") from error

    def _unknown(self, place: Location, problem: str) -> CounterUnknownError:
        remedy = _ANEW.format(index=self._index.url, warehouse=place.parent)
        where = shown(str(place))
        return CounterUnknownError(
            f"The file {where} has the counter of the index, and {problem}. {remedy}", {"location": str(place)}
        )
