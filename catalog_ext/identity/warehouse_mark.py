"""The mark of a warehouse: a small file that names its index, so that a second index in it is noticed.

It is a notice and no lock: if it cannot be read or written, that is logged, and the statement continues.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from catalog_ext.identity.record import INDEX_ID, id_of
from catalog_ext.metastore.errors import CatalogExtError, StorageError
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.storage.store import Storage

logger = logging.getLogger(__name__)

MARK_FILE = "_catalog_ext_index"
"""The file's name, directly in the warehouse; Hive and Spark ignore it because of the underscore."""

_LARGEST = 16 * 1024
_LONGEST_TEXT = 300
_THREADS = 8

_DANGER = "Neither knows of the other's tables and writes: a repair, vacuum or DROP by one can take or miss the other's"
_SHARED = (
    "The warehouse {warehouse} belongs to the index {other}, and the index {own} has it for its own, too. "
    f"{_DANGER} files. Work with that index, or in another warehouse. Where it is to give way to this one for good: "
    "catalog-ext --index '{url}' --warehouse '{warehouse}' adopt"
)
_INSIDE = (
    "The location {location} lies in the warehouse {warehouse} of the index {other}; now the index {own} has a table "
    f"there, too. {_DANGER} files. Have that index alone write there. If it is gone for good, remove {{place}}."
)

_UNKNOWN = "Whether the warehouse %s is another index's is not known: %s"

_done: set[tuple[str, str, str]] = set()
"""The checks that this process has done (kind, index, directory), so that none is repeated."""
_done_lock = threading.Lock()


class WarehouseSharedWarning(UserWarning):
    """A table lies in a warehouse that belongs to another index."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of a mark.

    Attributes:
        index: The index's id, which is among its properties.
        url: The URL of the index's database, without user, password and options.
        host: The host on which the mark was written, without which the path of a SQLite file says little.
        written_at_ms: The time of writing, in milliseconds since 1970, by that host's clock.
    """

    index: str
    url: str
    host: str
    written_at_ms: int

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.written_at_ms / 1000))
        return f"{self.url} (id {self.index}, marked by the host {self.host} at {since} UTC)"


def read_mark(storage: Storage, warehouse: Location) -> Mark | None:
    """Return the mark of a warehouse; None if it has no mark.

    Raises:
        StorageError: The store refuses or does not answer, or the file is not a mark.
    """
    place = warehouse.join(MARK_FILE)
    data = storage.read_file(place, _LARGEST)
    return None if data is None else _parsed(place, data)


def own_mark(index: Index) -> Mark:
    """Return the mark that names this index; the index gets an id if it has none."""
    return Mark(id_of(index), index.public_url, socket.gethostname(), int(time.time() * 1000))


def rewrite_mark(index: Index, storage: Storage, warehouse: str, *, dry_run: bool = False) -> Mark | None:
    """Make a warehouse's mark name this index; return the mark of another index that was (or would be) replaced.

    If the warehouse does not exist yet, it gets its mark with its first table.
    """
    place = Location.parse(warehouse)
    try:
        there, own = _readable(storage, place), index.properties.load().get(INDEX_ID)
        if not dry_run and (not storage.store_has_directories(place) or storage.stat(place) is not None):
            mark = own_mark(index)
            storage.write_file(place.join(MARK_FILE), _encoded(mark))
        return there if there is not None and there.index != own else None
    except CatalogExtError as error:
        logger.warning("The mark of the warehouse %s was not rewritten: %s", place, error.message)
        return None


class WarehouseMarks:
    """Checks warehouse marks when a table is created, and marks the index's own warehouse."""

    def __init__(self, index: Index, storage: Callable[[], Storage], warehouse: str) -> None:
        self._index = index
        self._storage = storage
        self._warehouse = Location.parse(warehouse)

    @cached_property
    def _own(self) -> Mark:
        return own_mark(self._index)

    def claim(self, location: Location) -> None:
        """Mark the index's own warehouse for a new managed table, or warn if it belongs to another index.

        A location outside the warehouse is only checked, as by ``look``.
        """
        if not self._warehouse.contains(location):
            self.look(location)
        elif self._is_first("claimed", self._warehouse):
            # A claimed warehouse needs no further check by ``look``.
            self._is_first("seen", self._warehouse)
            self._warn(self._warehouse, location, self._found("claimed", self._warehouse, self._claimed))

    def look(self, location: Location) -> None:
        """Warn if a location lies in a warehouse whose mark names another index."""
        above = [location.parent]
        while above[-1].key:
            above.append(above[-1].parent)
        new = [directory for directory in above if self._is_first("seen", directory)]
        found = in_parallel(lambda directory: self._found("seen", directory, self._read), new, _THREADS)
        for directory, mark in zip(new, found, strict=True):
            self._warn(directory, location, mark)

    def _is_first(self, what: str, directory: Location) -> bool:
        with _done_lock:
            before = len(_done)
            _done.add((what, self._index.url, str(directory)))
            return len(_done) > before

    def _found(self, what: str, directory: Location, find: Callable[[Location], Mark | None]) -> Mark | None:
        """Return the warehouse's mark if it names another index. If the store failed, the next call checks again."""
        try:
            mark = find(directory)
            return mark if mark is not None and mark.index != self._own.index else None
        except CatalogExtError as error:
            logger.warning(_UNKNOWN, directory, error.message)
            if error.retryable:
                with _done_lock:
                    _done.discard((what, self._index.url, str(directory)))
            return None

    def _read(self, directory: Location) -> Mark | None:
        try:
            return read_mark(self._storage(), directory)
        except StorageError as error:
            if error.retryable or directory == self._warehouse:
                raise
            # Ignore it: a user who may read a table need not have access to every folder above it.
            logger.debug("%s", error.message)
            return None

    def _claimed(self, warehouse: Location) -> Mark | None:
        """Return the warehouse's mark, after writing this index's mark if there was no mark."""
        storage = self._storage()
        found = read_mark(storage, warehouse)
        if found is not None:
            return found
        storage.create_directory(warehouse)
        if storage.create_file(warehouse.join(MARK_FILE), _encoded(self._own)):
            return self._own
        # Another index has just created the mark.
        return read_mark(storage, warehouse)

    def _warn(self, directory: Location, location: Location, other: Mark | None) -> None:
        if other is None or not self._is_first("warned", directory):
            return
        if directory == self._warehouse:
            text = shared(directory, other, self._index.url, f"{self._index.url} (id {self._own.index})")
        else:
            text = _INSIDE.format(
                location=location,
                warehouse=directory,
                other=other,
                own=self._index.url,
                place=directory.join(MARK_FILE),
            )
        logger.warning("%s", text)
        warnings.warn(text, WarehouseSharedWarning, stacklevel=2)


def shared(warehouse: Location, other: Mark, url: str, own: str) -> str:
    """Return a text that says that a warehouse belongs to another index, and what to do.

    Args:
        warehouse: The warehouse.
        other: The warehouse's mark.
        url: The URL of this index, for people.
        own: The words for this index in the sentence.
    """
    return _SHARED.format(warehouse=warehouse, other=other, own=own, url=url)


def _readable(storage: Storage, warehouse: Location) -> Mark | None:
    """Return the mark that will be replaced; None if the file does not hold a valid mark."""
    try:
        return read_mark(storage, warehouse)
    except StorageError as error:
        if isinstance(error.__cause__, (ValueError, RecursionError)):
            return None
        raise


def _encoded(mark: Mark) -> bytes:
    return json.dumps(asdict(mark), indent=1).encode("ascii")


def _parsed(place: Location, data: bytes) -> Mark:
    """Parse a mark. Unknown fields are ignored: a later release may have added them."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict) or not isinstance(fields.get("index"), str):
            raise ValueError("it names no index")
        written = fields.get("written_at_ms")
        written = written if isinstance(written, int) and 0 <= written < 1 << 45 else 0
        return Mark(_text(fields["index"]), _text(fields.get("url")), _text(fields.get("host")), written)
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"The file {shown(str(place))} is to name the index that the warehouse belongs to, and cannot be read: "
            f"{error}. Remove it, or adopt the warehouse: catalog-ext --index URL --warehouse '{place.parent}' adopt",
            {"location": str(place)},
        ) from error


def _text(value: object) -> str:
    """Return a value from a foreign file in a form that is safe for a one-line message."""
    text = value if isinstance(value, str) else "unknown"
    return "".join(c if c.isprintable() else "?" for c in text)[:_LONGEST_TEXT]
