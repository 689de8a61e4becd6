"""Connections to the index database: pool, transactions, streams, and translation of database errors to our own."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.database import adbc
from catalog_ext.metastore.index.database.engines import (
    POOL_OVERFLOW,
    POOL_SIZE,
    POOL_WAIT_S,
    file_identity,
    is_locked,
    look_for_pooler,
    make_engine,
)
from catalog_ext.metastore.index.database.failures import as_ours, is_lost_race, translated
from catalog_ext.metastore.index.database.urls import parse_url, shown_url
from catalog_ext.metastore.runtime.measures import Subject, failed
from catalog_ext.metastore.runtime.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import URL

    from catalog_ext.metastore.errors import IndexRestoredError


class IndexGuard(Protocol):
    """Detects an index that was restored from an older copy, by a counter that the index and the store both keep."""

    @property
    def behind(self) -> IndexRestoredError | None:
        """The error that changes raise because the index was restored; None if it is current, as far as known."""

    def require_current(self) -> None:
        """Raise ``IndexRestoredError`` if the index was restored from an older copy."""

    def advance(self) -> None:
        """Raise the counter in the index and on the store.

        Called before files are deleted: an older copy of the index may still list them, and then shows a lower counter.

        Raises:
            IndexRestoredError: The index was restored from an older copy.
            StorageError: The store does not answer.
        """

    def note_version(self, table_id: int, version: int) -> None:
        """Record the newest version of a table; if a later read finds an older version, the index was restored."""

    def forget(self) -> None:
        """Compare the counters again before the next change: a new connection may lead to a restored database."""


_Result = TypeVar("_Result")

MOST_STREAMS = 20
"""The most results that are read as streams at the same time. Each occupies a connection, or a spilled file, for as
long as its reader takes; the other connections of the pool stay free for short statements."""
_LOST_RACES = Backoff(retries=5, first_s=0.03)
_LOCKED = Backoff(retries=60, first_s=0.1, longest_s=0.1)


@dataclass(frozen=True, slots=True)
class PoolState:
    """The numbers of used and idle connections of a pool, and its limit."""

    in_use: int
    idle: int
    limit: int


class RetryAfter(Exception):
    """Raised inside a transaction that needs other transactions to run first.

    ``Database.write`` runs the other transactions and then tries again.

    Attributes:
        others: Runs the other transactions.
    """

    def __init__(self, others: Callable[[Database], object]) -> None:
        super().__init__("other transactions come first")
        self.others = others


class Database:
    """The pool of connections to the index: transactions, error translation, and a count of the statements.

    Each method that sends statements raises ``IndexUnavailableError`` if the database is gone or locked, and
    ``IndexDatabaseError`` if it refuses a statement. ``urls.parse_url`` makes the URL.
    """

    def __init__(self, url: URL) -> None:
        self.shown = shown_url(url)
        self.url = url
        self._counter = itertools.count()
        self._counted = 0
        self._streams = threading.BoundedSemaphore(MOST_STREAMS)
        self._opened_file: tuple[int, int] | None = None
        self.guard: IndexGuard | None = None
        """Checked before each change: it detects an index that was restored from an older copy."""
        self.engine = make_engine(url)
        self._file = url.database if self.dialect == "sqlite" else None
        sa.event.listen(self.engine, "before_cursor_execute", self.count_statement)
        if self.dialect != "sqlite":
            sa.event.listen(self.engine, "connect", self._note_connection)
        self.pooler = look_for_pooler(self.engine) if self.dialect == "postgresql" else None
        self.arrow = adbc.ArrowConnections(url, self.shown, self._is_pooled) if adbc.is_available(url) else None

    @property
    def dialect(self) -> str:
        """``sqlite``, ``postgresql`` or ``mysql`` (also for MariaDB)."""
        name = self.engine.dialect.name
        return "mysql" if name == "mariadb" else name

    @property
    def query_count(self) -> int:
        """The number of statements sent since the database was opened, without BEGIN, COMMIT and ROLLBACK."""
        return self._counted

    @property
    def pool(self) -> PoolState:
        """The state of the pool; streams of Arrow batches use further connections."""
        pool = self.engine.pool
        # A SQLite database in memory has one connection per thread, and no pool that could run out of connections.
        if not isinstance(pool, sa.QueuePool):
            return PoolState(0, 0, 0)
        return PoolState(pool.checkedout(), pool.checkedin(), POOL_SIZE + POOL_OVERFLOW)

    def _is_pooled(self) -> bool:
        """Return whether a pooler such as PgBouncer is in front of the database; connect first if this is unknown."""
        pooler = self.pooler
        if pooler is None:
            return False
        if pooler.is_there is None:
            with translated(self.shown), self.engine.connect():
                pass
        return bool(pooler.is_there)

    def _note_connection(self, *_: object) -> None:
        # The server may have failed over to an older database since the last connection: make the guard compare its
        # counters again.
        if self.guard is not None:
            self.guard.forget()

    def _note_replaced_file(self) -> None:
        """Make the guard compare its counters again if a backup or another copy has replaced the SQLite file.

        Otherwise the first change would go into the restored index before its age is known.
        """
        found = None if self._file is None else file_identity(self._file)
        if found is not None and found != self._opened_file:
            if self.guard is not None:
                self.guard.forget()
            self._opened_file = found

    def note_version(self, table_id: int, version: int) -> None:
        """Record the newest version of a table; if a later read finds an older version, commits were lost."""
        if self.guard is not None:
            self.guard.note_version(table_id, version)

    def count_statement(self, *_: object) -> None:
        """Increase the count of sent statements by one."""
        # next() on an itertools.count is atomic, so that threads need no lock. A reader may see a number that is one
        # too low.
        self._counted = next(self._counter) + 1

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()
        if self.arrow is not None:
            self.arrow.close()

    @contextmanager
    def reading(self, *, streams: bool = False) -> Iterator[sa.Connection]:
        """Give a connection for reading only. On SQLite, all statements of the block see the same snapshot.

        On PostgreSQL the connection has no transaction, as VACUUM requires, unless rows are streamed.

        Args:
            streams: Whether rows are fetched while the query runs. PostgreSQL needs a transaction for the cursor;
                without streaming, none is begun, which saves two messages.
        """
        with translated(self.shown), self.engine.connect() as connection:
            alone = self.dialect == "postgresql" and not streams
            yield connection.execution_options(isolation_level="AUTOCOMMIT") if alone else connection

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Reserve one of the slots for results that are read as streams; wait if all slots are in use.

        Raises:
            IndexUnavailableError: No stream ended in time.
        """
        streams = self._streams
        if not streams.acquire(timeout=POOL_WAIT_S):
            busy = IndexUnavailableError(
                f"{MOST_STREAMS} results of many rows are being read from the index {self.shown}, and none has ended "
                f"within {POOL_WAIT_S} s: their readers are slow, or the database is. Run the statement again, and "
                "look for statements that run long.",
                {"index": self.shown},
            )
            raise failed(Subject.INDEX, busy)
        try:
            yield
        finally:
            streams.release()

    def write(self, work: Callable[[sa.Connection], _Result], *, durable: bool = True) -> _Result:
        """Run ``work`` in a transaction, commit it, and return its result.

        ``work`` runs again if the database rolls the transaction back in favour of another one, and after a
        ``RetryAfter``, when the transactions that it names have run.

        Args:
            work: Reads and changes in one transaction.
            durable: Whether the changes must survive a power loss at once. Otherwise the next durable transaction makes
                them durable too, with a single sync of the disk. On MySQL and MariaDB all changes are durable at once.

        Raises:
            ConflictError: The transaction lost several times in a row.
            IndexRestoredError: The index was restored from an older copy.
        """
        self._note_replaced_file()
        if self.guard is not None:
            self.guard.require_current()

        def attempt() -> _Result:
            options = {"catalog_ext_write": True, "catalog_ext_durable": durable}
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                if not durable and self.dialect == "postgresql":
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                return work(connection)

        try:
            while True:
                try:
                    return _LOST_RACES.attempt(attempt, is_lost_race)
                except RetryAfter as later:
                    others = later.others
                others(self)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise as_ours(error, self.shown) from error

    def change(self, statement: sa.UpdateBase, *, durable: bool = True) -> int:
        """Run one statement as a transaction of its own, as ``write`` does; return the number of changed rows."""
        return self.write(lambda connection: connection.execute(statement).rowcount, durable=durable)


def open_database(url: str) -> Database:
    """Return the database at a URL, or at the path of a SQLite file.

    Raises:
        InvalidConfigurationError: The index does not run on a database of this kind.
        EnvironmentSetupError: The database's driver is not installed.
        IndexUnavailableError: Other processes kept the SQLite file locked.
    """
    database = Database(parse_url(url))
    try:
        if database.dialect == "sqlite":
            use_write_ahead_log(database)
    except BaseException:
        database.close()
        raise
    return database


def use_write_ahead_log(database: Database) -> None:
    """Switch a SQLite file to WAL mode, so that readers and the writer do not block each other; the file keeps it.

    Raises:
        IndexUnavailableError: Other processes kept the file locked.
    """
    with translated(database.shown), database.engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        # SQLite's busy time-out does not apply to this PRAGMA, so retry while the file is locked.
        _LOCKED.attempt(lambda: driver.execute("PRAGMA journal_mode = WAL").fetchall(), is_locked)
