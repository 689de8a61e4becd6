"""SQLAlchemy engines of the index database, with the connection settings of each of the three databases."""

from __future__ import annotations

import os
import random
import select
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexUnavailableError, InvalidConfigurationError
from catalog_ext.metastore.index.database.urls import shown_url
from catalog_ext.metastore.runtime.private_files import make_folders, make_private_file

if TYPE_CHECKING:
    from sqlalchemy.engine import URL
    from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S = 30
"""The seconds that a SQLite writer waits for another writer; the URL's ``?timeout=`` overrides it."""

POOL_SIZE, POOL_OVERFLOW = 5, 25
POOL_WAIT_S = 30
_RESTS_SINCE = "catalog_ext_rests_since"
_REST_S = 5.0
_FILE = "catalog_ext_file"
_WRITE_LOCK_ASKED_EVERY_S = 0.003
"""The interval between attempts to take SQLite's write lock. SQLite's own intervals grow up to 100 ms, many times as
long as a commit holds the lock, so the lock would often be free while writers wait."""
_SQLITE_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL", "cache_size = -16384")


def make_engine(url: URL) -> sa.Engine:
    """Return the SQLAlchemy engine for a URL of ``parse_url``, with a connection pool and event listeners.

    Raises:
        InvalidConfigurationError: The parent path of a SQLite file is not a directory.
        IndexUnavailableError: The directory of a SQLite file cannot be created.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    arguments: dict[str, Any] = {"connect_args": {"connect_timeout": 10}}
    postgresql = url.get_backend_name() == "postgresql"
    if postgresql:
        # Never prepare statements: a pooler in transaction mode does not keep them, and a plan that was made for other
        # values may be slow.
        arguments["connect_args"]["prepare_threshold"] = None
    else:
        arguments["connect_args"]["charset"] = "utf8mb4"
    engine = sa.create_engine(
        url, isolation_level="READ COMMITTED", pool_pre_ping=not postgresql, pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW, pool_timeout=POOL_WAIT_S, pool_recycle=1800, **arguments,
    )  # fmt: skip
    if postgresql:
        _ping_idle_connections(engine)
    else:
        _set_up_mysql_sessions(engine)
    return engine


def _ping_idle_connections(engine: sa.Engine) -> None:
    """Ping a pooled connection before use if it was idle for long, or if the server sent data that no query asked for.

    SQLAlchemy's ``pool_pre_ping`` pings every time: a commit of twenty short transactions would send twenty more
    statements. A server that closes a connection sends a message, which can be seen without a ping.
    """

    def on_checkin(_: object, record: ConnectionPoolEntry) -> None:
        record.info[_RESTS_SINCE] = time.monotonic()

    def on_checkout(driver: Any, record: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401 -- not always installed
        since = record.info.pop(_RESTS_SINCE, None)
        fresh = since is None or time.monotonic() - since < _REST_S
        if fresh and not (driver.closed or _has_pending_input(driver.fileno())):
            return
        dialect: Any = engine.dialect
        try:
            dialect.do_ping(driver)
        except dialect.loaded_dbapi.Error as error:
            if not dialect.is_disconnect(error, driver, None):
                raise
            # The server probably restarted, so the other pooled connections are dead too: this error makes SQLAlchemy
            # discard all.
            raise sa.exc.InvalidatePoolError from error

    sa.event.listen(engine, "checkin", on_checkin)
    sa.event.listen(engine, "checkout", on_checkout)


def _has_pending_input(descriptor: int) -> bool:
    news = select.poll()
    news.register(descriptor, select.POLLIN)
    return bool(news.poll(0))


def _sqlite_engine(url: URL) -> sa.Engine:
    _make_parent_folder(url)
    engine = sa.create_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_WAIT_S,
        pool_recycle=900,  # only new connections read statistics that another process renewed
        connect_args={} if url.query.get("timeout") else {"timeout": BUSY_TIMEOUT_S},
    )
    if url.database is not None and not url.database.startswith("file:"):
        sa.event.listen(engine, "do_connect", partial(_make_private, Path(url.database)))
        sa.event.listen(engine, "connect", partial(_note_file, Path(url.database)))
        sa.event.listen(engine, "checkout", partial(_require_same_file, Path(url.database)))
    sa.event.listen(engine, "connect", _prepare_sqlite)
    timeout = url.query.get("timeout")
    wait_s = float(timeout) if isinstance(timeout, str) else BUSY_TIMEOUT_S
    sa.event.listen(engine, "begin", partial(_begin_sqlite, wait_s))
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
    """Create the file of a new index readable for its owner alone; SQLite would apply the umask.

    SQLite gives the files of the write-ahead log the same mode.
    """
    # If the file cannot be created here, SQLite fails too, and that error is translated with a remedy.
    with suppress(OSError):
        make_private_file(file)


def _note_file(file: Path, _: object, record: ConnectionPoolEntry) -> None:
    """Record device and inode of the file that a new connection has open."""
    record.info[_FILE] = file_identity(file)


def _require_same_file(file: Path, _: object, record: ConnectionPoolEntry, __: object) -> None:
    """Make the pool open a new connection if the database file was replaced, as by a restored backup.

    The old connection still has the deleted file open: no other process would ever see its commits.

    Raises:
        DisconnectionError: The path now leads to another file.
    """
    found = file_identity(file)
    if found is not None and found != record.info.get(_FILE):
        raise sa.exc.DisconnectionError(f"{file} was replaced by another file")


def file_identity(file: str | Path) -> tuple[int, int] | None:
    """Return the device and inode number of a file; None if it does not exist."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # ``isolation_level = None`` turns off the driver's implicit BEGIN, which comes late and takes no write lock. The
    # listeners below begin the transactions.
    connection.isolation_level = None
    for pragma in _SQLITE_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(wait_s: float, connection: sa.Connection) -> None:
    execution = connection.get_execution_options()
    driver: Any = connection.connection.dbapi_connection
    if not execution.get("catalog_ext_write", False):
        driver.execute("BEGIN")
        return
    # With NORMAL, a commit does not sync the write-ahead log. The next commit with FULL syncs the log, and with it the
    # earlier commits.
    level = "FULL" if execution.get("catalog_ext_durable", True) else "NORMAL"
    driver.execute(f"PRAGMA synchronous = {level}")
    _take_write_lock(driver, wait_s)


def _take_write_lock(driver: Any, wait_s: float) -> None:  # noqa: ANN401 -- as SQLAlchemy has it
    """Begin a transaction that writes, and take SQLite's write lock at once.

    If a transaction read before it took the lock, its snapshot could be too old to write.

    Raises:
        sqlite3.OperationalError: Other processes held the lock for the whole wait.
    """
    deadline = time.monotonic() + wait_s
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_locked(error) or time.monotonic() >= deadline:
                    raise
            else:
                return
            time.sleep(_WRITE_LOCK_ASKED_EVERY_S * random.uniform(0.3, 1.0))
    finally:
        driver.execute(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")


def is_locked(error: Exception) -> bool:
    """Return whether SQLite reports that another connection holds the lock."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


# Strict mode: otherwise the server truncates long values silently, which would damage JSON of the index and make
# different names equal. InnoDB: tables of a non-transactional engine would keep half a commit, and lock no rows.
_MYSQL_SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION default_storage_engine = InnoDB"
)


def _set_up_mysql_sessions(engine: sa.Engine) -> None:
    """Set the SQL mode and storage engine that the index relies on, for each new session on MariaDB or MySQL.

    The listener runs before SQLAlchemy's own, which reads from the first connection's ``sql_mode`` how names are
    quoted.
    """

    def connected(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 -- the driver is not always installed
        with connection.cursor() as cursor:
            cursor.execute(_MYSQL_SETTINGS)

    sa.event.listen(engine, "connect", connected, insert=True)


SET_LOCAL = "SET LOCAL random_page_cost = 1.1"
"""Makes PostgreSQL prefer indexes. By default it assumes that a random read costs four times as much as a sequential
one, as on a spinning disk, and would scan all files instead of looking up those of a thousand partitions."""

_PREPARE = """SELECT pg_backend_pid(), CASE WHEN pg_backend_pid() = %s
THEN set_config('random_page_cost', '1.1', false) END"""


@dataclass(slots=True)
class Pooler:
    """Whether a pooler such as PgBouncer is in front of a PostgreSQL database.

    A pooler in transaction mode gives a client a server connection for one transaction only. Neither prepared
    statements nor settings last from one transaction to the next, and a session setting stays on the server connection,
    which other clients get later. So behind a pooler each read by ADBC and each streamed read is a transaction, and
    settings are local to it.

    Detection: a pooler gives its clients its own keys for cancelling a query, so the process number in a client's key
    differs from that of the server process which answers. This is also true in session mode, where the transactions are
    not needed and cost two requests for each read by ADBC.

    Attributes:
        is_there: The result for the last new connection; None before the first connection.
    """

    is_there: bool | None = None


def look_for_pooler(engine: sa.Engine) -> Pooler:
    """Install listeners that detect a pooler at each new connection, and that send the settings suitable for it."""
    pooler = Pooler()

    def connected(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 -- the driver is not always installed
        before, connection.autocommit = connection.autocommit, True
        client_process = connection.info.backend_pid
        (server_process, _setting) = connection.execute(_PREPARE, (client_process,)).fetchone()
        connection.autocommit = before
        pooler.is_there = server_process != client_process

    def begun(connection: sa.Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        if pooler.is_there and not driver.autocommit:
            connection.exec_driver_sql(SET_LOCAL)

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", begun)
    return pooler
