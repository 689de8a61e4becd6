"""The file with an index's change counter in the warehouse, by which an index restored from a backup is detected."""

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
"""The start of the file's name, followed by its id. It is directly in the warehouse; Hive and Spark ignore it because
of the underscore."""

COUNTER_ID = "index.counter.id"
"""The property with the id of the counter's file. The index has it from its first change on, so every backup has it
too."""

COUNTER_WRITTEN = "index.counter.written"
"""The property of an index that has written its counter. If the file is missing although this is set, it was lost."""

_LARGEST = 4096
_PAUSES_S = (0.2, 0.8)
"""The pauses before a missing counter is read again: on HDFS the file is absent while another process replaces it."""

_ANEW = (
    "If the index was not restored, have it written anew: catalog-ext --index '{index}' --warehouse '{warehouse}' "
    "adopt. If it was: catalog-ext --index '{index}' restored."
)


class CounterUnknownError(StorageError):
    """The counter is malformed, or is missing although the index has written it.

    Remedy: See the message: `catalog-ext adopt` writes it anew, `catalog-ext restored` is for an index that was
    restored.
    """


@dataclass(frozen=True, slots=True)
class Counter:
    """The content of the counter's file.

    Attributes:
        incarnation: The number of the index's newest incarnation; each recovery after a restore begins a new one.
        counter: The highest change counter.
        tables: The highest number (id) that a table has had so far.
        written_at_ms: The time of writing, in milliseconds since 1970, by the writer's clock.
        mark: A random text that the index stored with this counter; empty until the counter was raised for the first
            time.
    """

    incarnation: int
    counter: int
    tables: int
    written_at_ms: int
    mark: str

    @classmethod
    def of(cls, recorded: Mapping[str, str], newest_table: int) -> Counter:
        """Return the counter to write for an index with these properties, with the present time."""
        own = position_of(recorded)
        now_ms = int(time.time() * 1000)
        return cls(own.incarnation, own.counter, newest_table, now_ms, recorded.get(COUNTER_MARK, ""))

    @property
    def position(self) -> CounterPosition:
        """Incarnation and counter of the index at the time of writing."""
        return CounterPosition(self.incarnation, self.counter)

    def is_older_than(self, seconds: float) -> bool:
        """Return whether the counter's time differs from this clock's by more than ``seconds``, in either direction.

        A time in the future comes from a wrong clock, so the counter's age is unknown and counts as old.
        """
        return abs(time.time() * 1000 - self.written_at_ms) > seconds * 1000

    def is_ahead_of(self, recorded: Mapping[str, str]) -> bool:
        """Return whether an index with these properties lacks changes that the writer of this counter had.

        Two copies of one index, each in use, can reach the same counter, but never with the same mark.
        """
        own = position_of(recorded)
        return self.position > own or (self.position == own and self.mark != recorded.get(COUNTER_MARK, ""))

    def to_json(self) -> bytes:
        """Return the content of the file, as JSON."""
        return json.dumps(asdict(self)).encode("ascii")


class CounterFile:
    """Reads and writes the file with an index's counter in its warehouse."""

    def __init__(self, index: Index, storage: Callable[[], Storage]) -> None:
        self._index = index
        self._storage = storage

    def place(self, recorded: Mapping[str, str]) -> Location | None:
        """Return the file's location; None for an index without a warehouse of its own, which has no counter."""
        warehouse = recorded.get(WAREHOUSE)
        if warehouse is None:
            return None
        number = recorded.get(COUNTER_ID) or self._index.properties.add_missing({COUNTER_ID: uuid4().hex})[COUNTER_ID]
        return Location.parse(warehouse).join(f"{COUNTER_FILE}{number}")

    def read(self, place: Location) -> Counter | None:
        """Return the counter on the store; None if there is no file and the index has never written it.

        Raises:
            StorageError: The store refuses or does not answer.
            CounterUnknownError: The file is malformed, or missing although the index has written it.
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
        """Write the index's counter to the warehouse. If several processes write, the highest counter remains.

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
            # This process may have overwritten a newer counter of another process: write again if the index's counter
            # has changed.
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
