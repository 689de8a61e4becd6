"""The scratch database of one repair: partitions and files of the store and the index, and the report's entries.

A listing has no order and may be larger than memory. SQLite compares the two sides as sets, on disk, with a bounded
cache.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_CACHE_KIB = 32 * 1024
_IN_QUERY = 500
"""The number of parameters in one query; older releases of SQLite allow 999."""
_SCHEMA = """
CREATE TABLE listed_partitions (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE listed_files (name TEXT, path TEXT, size INTEGER, modified_ms INTEGER, etag INTEGER);
CREATE TABLE indexed_partitions (name TEXT PRIMARY KEY, location TEXT, files INTEGER, bytes INTEGER) WITHOUT ROWID;
CREATE TABLE indexed_files (name TEXT, path TEXT, size INTEGER, modified_ms INTEGER, etag INTEGER);
CREATE TABLE partitions_in_sync (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE differing_files (name TEXT, path TEXT, size INTEGER, modified_ms INTEGER, etag INTEGER, side INTEGER);
CREATE TABLE new_etags (name TEXT, path TEXT, size INTEGER, modified_ms INTEGER, etag INTEGER);
CREATE TABLE failures (directory TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID;
CREATE TABLE protected (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE lost (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE skipped (path TEXT PRIMARY KEY, partition TEXT, files INTEGER, bytes INTEGER, reason TEXT) WITHOUT ROWID;
CREATE TABLE warned (path TEXT, partition TEXT, files INTEGER, bytes INTEGER, reason TEXT);
CREATE TABLE unreadable (name TEXT, path TEXT, PRIMARY KEY (name, path)) WITHOUT ROWID;
CREATE TABLE pending_removals (uri TEXT PRIMARY KEY, size INTEGER, modified_ms INTEGER, etag INTEGER) WITHOUT ROWID;
CREATE TABLE taken (directory TEXT PRIMARY KEY, partition TEXT) WITHOUT ROWID;
CREATE TABLE places (name TEXT PRIMARY KEY, location TEXT) WITHOUT ROWID;
CREATE TABLE ended (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE expired (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE leaving (listed_rowid INTEGER);
CREATE TABLE replaced (uri TEXT PRIMARY KEY, size INTEGER, modified_ms INTEGER, etag INTEGER) WITHOUT ROWID;
CREATE TABLE in_flight_files (listed_rowid INTEGER, name TEXT, path TEXT, size INTEGER, id TEXT);
CREATE TABLE in_flight_partitions (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE metastore_partitions (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, action TEXT, partition TEXT, path TEXT, files INTEGER, bytes INTEGER, reason TEXT
);
CREATE INDEX entries_by_action ON entries (action, seq);
"""
_P = ParamSpec("_P")
_R = TypeVar("_R")


def scratch_failed(error: sqlite3.Error | OSError) -> StorageError:
    """Return the error of a repair whose scratch files cannot be written or read."""
    return StorageError(
        f"The scratch file of this repair failed: {error}. What was committed stays. Free some space, or set TMPDIR "
        "(and SQLITE_TMPDIR, if you use it) to a directory on a disk with room, and run the repair again."
    )


def _translated(method: Callable[_P, _R]) -> Callable[_P, _R]:
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise scratch_failed(error) from error

    return call


_COPYING = threading.Lock()


@cache
def _empty() -> sqlite3.Connection:
    """Return an in-memory database with the schema. Copying it takes a tenth of the time of creating the tables."""
    made = sqlite3.connect(":memory:", check_same_thread=False)
    made.executescript(_SCHEMA)
    return made


class Scratch:
    """A scratch database that threads may share. It is deleted with its owner, and also if the process is killed.

    Attributes:
        in_sync: The number of registered partitions that were not inserted, because the listing has them exactly as
            registered. Their names are in ``partitions_in_sync`` if an unregistered partition was found.
    """

    def __init__(self) -> None:
        self.in_sync = 0
        # The empty name makes SQLite's temporary database: it spills to disk beyond its cache, in a file that is
        # unlinked at once.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        self._inserts: dict[str, str] = {}
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_CACHE_KIB}", "locking_mode=EXCLUSIVE"):
            self._db.execute(f"PRAGMA {pragma}")
        with _COPYING:
            _empty().backup(self._db)
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Delete the scratch database, and with it the report's entries."""
        self._db.close()

    def __del__(self) -> None:
        # Close explicitly: Python 3.13 warns if the garbage collector closes a connection.
        self._db.close()

    @_translated
    def insert(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows to a table, except rows whose key it already has.

        ``seq`` numbers the report's entries automatically.
        """
        with self._lock:
            statement = self._inserts.get(table)
            if statement is None:
                names = [row[1] for row in self._db.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
                values = f"({','.join(names)}) VALUES ({','.join('?' * len(names))})"
                statement = self._inserts[table] = f"INSERT OR IGNORE INTO {table} {values}"
            self._db.executemany(statement, rows)

    def leave_out(self, names: str, *sides: str) -> None:
        """Remove partitions and their files from the comparison.

        Args:
            names: An SQL query for the partition names.
            sides: ``listed``, ``indexed``; by default both.
        """
        for side in sides or ("listed", "indexed"):
            for rows in ("files", "partitions"):
                self.execute(f"DELETE FROM {side}_{rows} WHERE name IN ({names})")

    @_translated
    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> None:
        """Execute a statement that returns no rows."""
        self._db.execute(statement, parameters)

    def create_function(self, name: str, function: Callable[[str], str | None]) -> None:
        """Register a Python function with one text argument for use in SQL; it must be deterministic."""
        self._db.create_function(name, 1, function, deterministic=True)

    @_translated
    def count(self, query: str, parameters: tuple[Any, ...] = ()) -> int:
        """Return the single number that a query returns."""
        return int(self._db.execute(query, parameters).fetchone()[0])

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, one by one."""
        cursor = _translated(self._db.execute)(query, parameters)
        try:
            while rows := _translated(cursor.fetchmany)(1000):
                yield from rows
        finally:
            # After a failed repair the database may have been closed before its cursors.
            with suppress(sqlite3.ProgrammingError):
                cursor.close()

    def rows_of(self, query: str, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query for some keys, run for a part of them at a time; ``{}`` stands for these keys."""
        for some in batched(keys, _IN_QUERY):
            yield from self.rows(query.format(",".join("?" * len(some))), tuple(some))

    @_translated
    def delete(self, table: str, keys: Iterable[str]) -> None:
        """Delete the rows with these keys."""
        self._db.executemany(f"DELETE FROM {table} WHERE key = ?", ((key,) for key in keys))

    def add_entries(self, entries: Iterable[tuple[str, str, str, int | None, int | None, str]]) -> None:
        """Append entries to the report: action, partition, path, files, bytes and reason."""
        self.insert("entries", entries)
