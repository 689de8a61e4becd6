"""Translates database errors to errors of this project (``CatalogExtError``)."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import CatalogExtError, ConflictError, IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index.database.sqlite_file import why_unopened
from catalog_ext.metastore.runtime.measures import Subject, failed

if TYPE_CHECKING:
    from collections.abc import Iterator

# Errors after which a transaction is retried or reports a conflict. PostgreSQL: serialization_failure,
# deadlock_detected, unique_violation, lock_not_available. MySQL: deadlock, lock wait time-out, duplicate entry. MariaDB
# from 11.6 on rolls a transaction back if another one has changed the row (1020: innodb_snapshot_isolation); MySQL's
# Group Replication does so at the commit (3101).
_RETRY_STATES = frozenset({"40001", "40P01"})
_RETRY_CODES = frozenset({1020, 1213, 3101})
_LOCKED_CODES = frozenset({1205})
_LOCKED_STATES = frozenset({"55P03"})
# The disk is full. PostgreSQL: disk_full. MySQL: disk full, table full, and the engine's messages for ENOSPC.
_FULL = (
    frozenset({"53100"}),
    frozenset({1021, 1114}),
    ("database or disk is full", "No space left on device", "Got error 28"),
)
_DISK_WORDS = "disk I/O error"
"""SQLite's message for every problem with its file, also for a full disk while it writes its log."""

# The database is read-only: a standby, or a server or session that was switched to read-only. MySQL has codes for the
# option --read-only, for a transaction, and for InnoDB.
_READ_ONLY = (frozenset({"25006"}), frozenset({1290, 1792, 1836}), ("attempt to write a readonly database",))
_SQLITE_BUSY = ("database is locked", "database table is locked", "database is busy")
# Messages of a reachable database about a wrong statement or a missing table.
_SCHEMA_WORDS = ("no such table", "no such column", "has no column", "syntax error", "doesn't exist", "does not exist")
# SQLite's messages for a database that cannot be reached. Only known messages count: drivers use OperationalError also
# for a wrong statement (SQLite for every SQLITE_ERROR, such as an expression that is too deep; PyMySQL for every
# unknown code; psycopg for program limits, class 54), and a retry of such a statement would fail again.
_AWAY_WORDS = ("unable to open", "disk I/O error", "locking protocol", "interrupted", "out of memory", "is locked")
# PostgreSQL's SQLSTATEs for a database that cannot be reached: connection, credentials, missing database, no resources,
# shutdown or cancelled, system errors, and a session that was ended because its transaction was idle or took too long.
AWAY_STATES = ("08", "25P03", "25P04", "28", "3D", "53", "57", "58")
# Codes for a database that cannot be reached: MySQL and MariaDB (client codes from 2000, ProxySQL codes from 9000).
# Files and storage engine, no memory, too many connections, handshakes, credentials, missing database, a Galera node
# that is not ready (1047), shutdown, broken connections, blocked hosts, a failed commit, user limits, cancelled,
# time-out.
_AWAY_CODES = frozenset({
    0, 1015, *range(1023, 1031), 1037, 1038, 1040, 1041, 1042, 1043, 1044, 1045, 1046, 1047, 1049, 1053, 1129, 1130,
    *range(1156, 1162), 1180, 1181, 1203, 1205, 1206, 1226, 1317, 1698, 1927, 1969, 3024, *range(2000, 3000),
    *range(9000, 9100),
})  # fmt: skip
_STATEMENT_MODE = "not allowed in statement pooling mode"
"""PgBouncer's message if it refuses BEGIN; its SQLSTATE is that of a broken connection."""

_REFUSED_WORDS = ("number of parameters must be between",)
"""Messages of libpq, without an SQLSTATE, for a statement that it does not send."""


def is_lost_race(error: BaseException) -> bool:
    """Return whether the database rolled the transaction back because of a concurrent one, so that it may run again."""
    # psycopg's attribute ``sqlstate`` also exists on our ConflictError, which the caller of the statement retries
    # itself.
    if not isinstance(error, (sa.exc.SQLAlchemyError, sqlite3.Error)):
        return False
    origin = _origin(error)
    return getattr(origin, "sqlstate", None) in _RETRY_STATES or _code(origin) in _RETRY_CODES


def is_duplicate(error: BaseException) -> bool:
    """Return whether a unique constraint refused a row."""
    origin = _origin(error)
    return (
        getattr(origin, "sqlstate", None) == "23505"
        or _code(origin) == 1062
        or (isinstance(origin, sqlite3.IntegrityError) and "UNIQUE" in str(origin))
    )


def is_refused_for_good(error: CatalogExtError) -> bool:
    """Return whether the database would refuse the same request again; a wrong or missing schema does not count."""
    if type(error) is not IndexDatabaseError:
        return False
    text = str(_origin(error.__cause__ or error))
    # Another release may be migrating the index at this moment, and then the tables exist later.
    return not any(words in text for words in _SCHEMA_WORDS)


def takes_nothing(error: CatalogExtError) -> bool:
    """Return whether the database reported that it is full or read-only, so that it did not run the statement."""
    cause = error.__cause__
    if not isinstance(error, IndexUnavailableError) or cause is None:
        return False
    origin = _origin(cause)
    return _is_any(origin, _FULL) or _is_any(origin, _READ_ONLY)


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Raise database errors of the block as errors of this project.

    ``database`` is the database's URL for messages, without its password.

    Raises:
        IndexUnavailableError: The database cannot be reached, has gone away, is locked, full or read-only.
        ConflictError: Another transaction was first.
        IndexDatabaseError: Any other error of the database.
    """
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        raise as_ours(error, database) from error


def as_ours(error: Exception, database: str) -> CatalogExtError:
    """Return the error of this project for a database error, and count it as a failure of the index."""
    ours = _as_ours(error, database)
    # Callers expect duplicate rows and concurrent changes, so these are not counted as failures of the index.
    return ours if isinstance(ours, ConflictError) or is_duplicate(error) else failed(Subject.INDEX, ours)


def _as_ours(error: Exception, database: str) -> CatalogExtError:
    origin = _origin(error)
    database_error = _first_line(origin)
    parameters = {"index": database}
    if is_lost_race(error):
        # The statement may consist of several transactions, and earlier ones may be committed: do not say that all was
        # undone.
        message = (
            f"Another transaction on the index {database} was first ({database_error}). This one was rolled back; "
            "try again."
        )
        return ConflictError(message, parameters)
    if _is_locked(origin):
        return IndexUnavailableError(
            f"The index {database} is locked by another process and did not become free in time ({database_error}). "
            "Try again when the other process has finished.",
            parameters,
        )
    if _is_any(origin, _FULL):
        return IndexUnavailableError(
            f"The index {database} has no room left: {database_error}. Earlier commits are intact. Make room on the "
            "database's disk, or raise its limit, and run the statement again.",
            parameters,
        )
    if _is_any(origin, _READ_ONLY):
        return IndexUnavailableError(
            f"The index {database} can be read and not written: {database_error}. Give its user write permission (for "
            "SQLite on the file and its folder, even to read), or, after a failover, give the address of the server "
            "that takes writes; then run the statement again.",
            parameters,
        )
    if _DISK_WORDS in database_error:
        return IndexUnavailableError(
            f"The index {database} cannot be read or written on its disk: {database_error}. Check whether the disk is "
            "full or broken; earlier commits are intact. Make room and run the statement again.",
            parameters,
        )
    if _STATEMENT_MODE in database_error:
        return IndexDatabaseError(
            f"The index {database} is behind a pooler in statement mode, which allows no transactions: "
            f"{database_error}. Set the pooler to transaction or session mode (PgBouncer: pool_mode = transaction), "
            "or give the address of the server itself.",
            parameters,
        )
    return _of_no_known_state(error, database, database_error)


def _of_no_known_state(error: Exception, database: str, database_error: str) -> CatalogExtError:
    """Return the error for a database that is absent or damaged, or that refuses a statement."""
    parameters = {"index": database}
    reason = why_unopened(database) if database_error.startswith("unable to open") else None
    if reason is not None:
        return IndexUnavailableError(f"The index {database} cannot be opened: {reason}.", parameters)
    if _is_unreachable(error):
        return IndexUnavailableError(
            f"The index {database} cannot be reached or used: {database_error}. Check that the database is running, "
            "that the address and credentials are right and that the file, if it is one, can be read and written.",
            parameters,
        )
    if "file is not a database" in database_error:
        return IndexDatabaseError(
            f"The index {database} is no SQLite database: {database_error}. Name another file (--index, or index=), "
            "or move this one away and register the tables again.",
            parameters,
        )
    if "malformed" in database_error:
        return IndexDatabaseError(
            f"The index {database} is damaged: {database_error}. Restore a copy of the file; or move it away, create "
            "a new index and register the tables again: their files are intact.",
            parameters,
        )
    return IndexDatabaseError(f"The index {database} refused a statement: {database_error}.", parameters)


def _origin(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error


def _code(origin: BaseException) -> int | None:
    first = origin.args[0] if origin.args else None
    return first if isinstance(first, int) else None


def _is_any(origin: BaseException, signs: tuple[frozenset[str], frozenset[int], tuple[str, ...]]) -> bool:
    states, codes, words = signs
    if getattr(origin, "sqlstate", None) in states or _code(origin) in codes:
        return True
    return any(each in str(origin) for each in words)


def _is_locked(origin: BaseException) -> bool:
    if isinstance(origin, sqlite3.OperationalError):
        return any(words in str(origin) for words in _SQLITE_BUSY)
    return getattr(origin, "sqlstate", None) in _LOCKED_STATES or _code(origin) in _LOCKED_CODES


def _is_unreachable(error: Exception) -> bool:
    if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, sa.exc.TimeoutError):
        return True
    origin = _origin(error)
    state, code = getattr(origin, "sqlstate", None), _code(origin)
    if code is not None:
        # Decide by the code if there is one: MySQL's SQLSTATEs are coarse, and an unknown database has that of a syntax
        # error.
        return code in _AWAY_CODES
    if state is not None:
        return str(state).startswith(AWAY_STATES)
    if not isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError, sqlite3.OperationalError)):
        return False
    text = str(origin)
    if isinstance(origin, sqlite3.Error):
        return any(words in text for words in _AWAY_WORDS)
    return not any(words in text for words in _REFUSED_WORDS)


def _first_line(origin: BaseException) -> str:
    text = " ".join(str(a) for a in origin.args) if _code(origin) is not None else str(origin)
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(origin).__name__)
    return line[:300].rstrip(".")
