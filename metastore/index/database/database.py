"""Connections to the index database: one place that knows how each of the three databases wants to be spoken to."""

from __future__ import annotations

import itertools
import random
import select
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexUnavailableError, InvalidConfigurationError
from catalog_ext.metastore.index.database import adbc, mysql_sessions, poolers
from catalog_ext.metastore.index.database.failures import as_ours, is_lost_race, translated
from catalog_ext.metastore.index.database.urls import parse_url, shown_url
from catalog_ext.metastore.runtime.measures import Subject, failed
from catalog_ext.metastore.runtime.private_files import make_folders, make_private_file
from catalog_ext.metastore.runtime.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import URL
    from sqlalchemy.pool import ConnectionPoolEntry

    from catalog_ext.metastore.index.database.guard import IndexGuard

_Result = TypeVar("_Result")

BUSY_TIMEOUT_S = 30
"""How long a SQLite writer waits for another one; the URL's ``?timeout=`` overrides it."""

_POOL_SIZE, _POOL_OVERFLOW = 5, 25
_POOL_WAIT_S = 30
MOST_STREAMS = 20
"""Results that are read as streams at once. Each holds a connection for as long as its reader takes, or a file; what is
left of the pool's connections is for what is short."""
_RESTS_SINCE = "catalog_ext_rests_since"
_REST_S = 5.0
_LOST_RACES = Backoff(retries=5, first_s=0.03)
_LOCKED = Backoff(retries=60, first_s=0.1, longest_s=0.1)
_WRITE_LOCK_ASKED_EVERY_S = 0.003
"""SQLite's own waiting gets longer up to 100 ms, many times what a commit holds the lock: the lock lies idle then."""
_SQLITE_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL", "cache_size = -16384")


@dataclass(frozen=True, slots=True)
class PoolState:
    """How many connections of a pool are in use, how many rest, and how many there may be."""

    in_use: int
    idle: int
    limit: int


class RetryAfter(Exception):
    """Raised by the work of a transaction that other transactions have to precede; ``Database.write`` runs them.

    Attributes:
        others: Runs those, in transactions of their own.
    """

    def __init__(self, others: Callable[[Database], object]) -> None:
        super().__init__("other transactions come first")
        self.others = others


class Database:
    """A pool of connections with our transactions, error translation and statement count.

    Args:
        url: A URL that ``catalog_ext.metastore.index.database.urls.parse_url`` made.
    """

    def __init__(self, url: URL) -> None:
        self.shown = shown_url(url)
        self.url = url
        self._counter = itertools.count()
        self._counted = 0
        self._streams = threading.BoundedSemaphore(MOST_STREAMS)
        self.guard: IndexGuard | None = None
        """Is asked before each change whether the index is older than what it once wrote."""
        self.engine = _make_engine(url)
        sa.event.listen(self.engine, "before_cursor_execute", self.count_statement)
        if self.dialect != "sqlite":
            sa.event.listen(self.engine, "connect", self._note_connection)
        self.pooler = poolers.listen(self.engine) if self.dialect == "postgresql" else None
        self.arrow = adbc.ArrowConnections(url, self.shown, self._is_pooled) if adbc.is_available(url) else None

    @property
    def dialect(self) -> str:
        """``sqlite``, ``postgresql`` or ``mysql`` (which MariaDB is here, too)."""
        name = self.engine.dialect.name
        return "mysql" if name == "mariadb" else name

    @property
    def query_count(self) -> int:
        """How many statements were sent since the database was opened; transaction control is not counted."""
        return self._counted

    @property
    def pool(self) -> PoolState:
        """The state of the pool; what streams Arrow batches has connections beside it."""
        pool = self.engine.pool
        # An index in memory has one connection for each thread, and no pool that could run short.
        if not isinstance(pool, sa.QueuePool):
            return PoolState(0, 0, 0)
        return PoolState(pool.checkedout(), pool.checkedin(), _POOL_SIZE + _POOL_OVERFLOW)

    def _is_pooled(self) -> bool:
        """Return whether a pooler stands before the database; the first connection says."""
        pooler = self.pooler
        if pooler is None:
            return False
        if pooler.is_there is None:
            with translated(self.shown), self.engine.connect():
                pass
        return bool(pooler.is_there)

    def _note_connection(self, *_: object) -> None:
        # Its database may have failed over since the last connection.
        if self.guard is not None:
            self.guard.forget()

    def note_version(self, table_id: int, version: int) -> None:
        """Note the newest version of a table: one that is older than a version noted before shows a lost commit."""
        if self.guard is not None:
            self.guard.note_version(table_id, version)

    def count_statement(self, *_: object) -> None:
        """Count one statement that was sent."""
        # next() on a count is atomic, so that threads need no lock; a reader may see a number that is one behind.
        self._counted = next(self._counter) + 1

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()
        if self.arrow is not None:
            self.arrow.close()

    @contextmanager
    def reading(self, *, streams: bool = False) -> Iterator[sa.Connection]:
        """Give a connection that is only read by; on SQLite all its statements see one state.

        Args:
            streams: Whether rows are fetched as the database has them: PostgreSQL keeps no cursor without a
                transaction, which otherwise only costs two more messages.

        Raises:
            IndexUnavailableError: The database is gone or locked.
            IndexDatabaseError: It refused a statement.
        """
        with translated(self.shown), self.engine.connect() as connection:
            alone = self.dialect == "postgresql" and not streams
            yield connection.execution_options(isolation_level="AUTOCOMMIT") if alone else connection

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """A context within which a result is read as a stream, after others where there are many.

        Raises:
            IndexUnavailableError: So many are read, and none of them has come to its end in time.
        """
        streams = self._streams
        if not streams.acquire(timeout=_POOL_WAIT_S):
            busy = IndexUnavailableError(
                f"{MOST_STREAMS} results of many rows are being read from the index {self.shown}, and none has ended "
                f"within {_POOL_WAIT_S} s: their readers are slow, or the database is. Run the statement again, and "
                "look for statements that run long.",
                {"index": self.shown},
            )
            raise failed(Subject.INDEX, busy)
        try:
            yield
        finally:
            streams.release()

    @contextmanager
    def maintaining(self) -> Iterator[sa.Connection]:
        """Give a connection outside of any transaction, as PostgreSQL's VACUUM wants it."""
        with translated(self.shown), self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def write(self, work: Callable[[sa.Connection], _Result], *, durable: bool = True) -> _Result:
        """Return what ``work`` returns, its changes committed.

        It runs again when the database preferred another transaction, and after the transactions of a ``RetryAfter``.

        Args:
            work: Reads and changes in one transaction.
            durable: Whether the changes are to outlive a power loss at once. Otherwise they do from the next durable
                ones on, which cost the one wait for the disk (MySQL and MariaDB: they are always durable).

        Raises:
            ConflictError: It lost several times in a row.
            IndexUnavailableError: The database is gone or locked.
            IndexDatabaseError: It refused a statement.
            IndexRestoredError: The index was put back to an earlier time.
        """
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


def _timeout_s(url: URL) -> float:
    text = url.query.get("timeout")
    return float(text) if isinstance(text, str) else BUSY_TIMEOUT_S


def _make_engine(url: URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    arguments: dict[str, Any] = {"connect_args": {"connect_timeout": 10}}
    postgresql = url.get_backend_name() == "postgresql"
    if postgresql:
        # Never prepare: a pooler in transaction mode keeps no prepared statements, and plans for other values mislead.
        arguments["connect_args"]["prepare_threshold"] = None
    else:
        arguments["connect_args"]["charset"] = "utf8mb4"
    engine = sa.create_engine(
        url, isolation_level="READ COMMITTED", pool_pre_ping=not postgresql, pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW, pool_timeout=_POOL_WAIT_S, pool_recycle=1800, **arguments,
    )  # fmt: skip
    if postgresql:
        _ask_whether_they_live(engine)
    else:
        mysql_sessions.listen(engine)
    return engine


def _ask_whether_they_live(engine: sa.Engine) -> None:
    """Have connections that have rested, or whose server has said something unasked, be pinged before they are used.

    SQLAlchemy's own ``pool_pre_ping`` asks every time: a commit, which takes twenty short transactions, would send
    twenty statements more. A server that ends a connection says so, and that is there without being asked for.
    """

    def rests(_: object, record: ConnectionPoolEntry) -> None:
        record.info[_RESTS_SINCE] = time.monotonic()

    def wakes(driver: Any, record: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401 -- not always installed
        since = record.info.pop(_RESTS_SINCE, None)
        fresh = since is None or time.monotonic() - since < _REST_S
        if fresh and not (driver.closed or _has_news(driver.fileno())):
            return
        dialect: Any = engine.dialect
        try:
            dialect.do_ping(driver)
        except dialect.loaded_dbapi.Error as error:
            if not dialect.is_disconnect(error, driver, None):
                raise
            # The others of the pool are gone, too, as after a restart of the server.
            raise sa.exc.InvalidatePoolError from error

    sa.event.listen(engine, "checkin", rests)
    sa.event.listen(engine, "checkout", wakes)


def _has_news(descriptor: int) -> bool:
    news = select.poll()
    news.register(descriptor, select.POLLIN)
    return bool(news.poll(0))


def _sqlite_engine(url: URL) -> sa.Engine:
    _make_parent_folder(url)
    timeout = url.query.get("timeout")
    engine = sa.create_engine(
        url,
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW,
        pool_timeout=_POOL_WAIT_S,
        pool_recycle=900,  # new connections see the statistics that another process renewed
        connect_args={} if timeout else {"timeout": BUSY_TIMEOUT_S},
    )
    if url.database is not None and not url.database.startswith("file:"):
        sa.event.listen(engine, "do_connect", partial(_make_private, Path(url.database)))
    sa.event.listen(engine, "connect", _prepare_sqlite)
    wait_s = _timeout_s(url)

    def begin(connection: sa.Connection) -> None:
        _begin_sqlite(connection, wait_s)

    sa.event.listen(engine, "begin", begin)
    return engine


def _make_parent_folder(url: URL) -> None:
    if url.database is None or url.database.startswith("file:"):
        return
    folder = Path(url.database).parent
    try:
        make_folders(folder)
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise InvalidConfigurationError(
                f"The index {shown_url(url)} cannot be made: {folder} is no folder, or lies below a file. Give another "
                "path.",
                {"index": shown_url(url)},
            ) from error
        raise IndexUnavailableError(
            f"The folder {folder} of the index {shown_url(url)} cannot be made: {error.strerror}. Give another path.",
            {"index": shown_url(url)},
        ) from error


def _make_private(file: Path, *_: object) -> None:
    """Make the file of a new index for its owner alone: SQLite would apply the umask.

    The files of the write-ahead log get the mode of the index's file, from SQLite itself.
    """
    # Where no file can be made, SQLite fails as well, and its error is translated with what can be done.
    with suppress(OSError):
        make_private_file(file)


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin where we say so: the driver's own idea of them would begin late and without the write lock.
    connection.isolation_level = None
    for pragma in _SQLITE_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection, wait_s: float) -> None:
    execution = connection.get_execution_options()
    driver: Any = connection.connection.dbapi_connection
    if not execution.get("catalog_ext_write", False):
        driver.execute("BEGIN")
        return
    # Without, the write-ahead log is not synced: its next durable transaction does that for those before it, too.
    level = "FULL" if execution.get("catalog_ext_durable", True) else "NORMAL"
    driver.execute(f"PRAGMA synchronous = {level}")
    _take_write_lock(driver, wait_s)


def _take_write_lock(driver: Any, wait_s: float) -> None:  # noqa: ANN401 -- as SQLAlchemy has it
    """Begin a transaction that writes.

    It takes the lock at once: one that reads first could find that its snapshot is too old to write on.

    Raises:
        sqlite3.OperationalError: Others had the lock for all of the time.
    """
    deadline = time.monotonic() + wait_s
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() >= deadline:
                    raise
            else:
                return
            time.sleep(_WRITE_LOCK_ASKED_EVERY_S * random.uniform(0.3, 1.0))
    finally:
        driver.execute(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")


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
    """Make readers and the writer of a SQLite file independent of each other; the file keeps the setting.

    Raises:
        IndexUnavailableError: Other processes kept the file locked.
    """
    with translated(database.shown), database.engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        # The busy time-out does not apply to this switch.
        _LOCKED.attempt(lambda: driver.execute("PRAGMA journal_mode = WAL").fetchall(), _is_locked)


def _is_locked(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
