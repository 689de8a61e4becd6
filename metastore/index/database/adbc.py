"""Reads PostgreSQL through its ADBC driver: binary COPY straight to Arrow, four times as fast as the driver's rows.

SQLite's ADBC driver must run in another process; ``docs/spec/index.md`` says why.
"""

from __future__ import annotations

import queue
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.errors import CatalogExtError, IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index.database.engines import SET_LOCAL
from catalog_ext.metastore.index.database.failures import AWAY_STATES
from catalog_ext.metastore.runtime.measures import Subject, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa
    from sqlalchemy.engine import URL

_KEPT = 5
_BATCH_BYTES = str(2 << 20)
_PREFER_INDEXES = "SET random_page_cost = 1.1"

_NO_FAULT_OF_THE_DATABASE = frozenset({"INVALID_ARGUMENT", "INVALID_DATA", "NOT_IMPLEMENTED"})
"""Status codes of the driver, without an SQLSTATE, if it cannot send a statement or read the answer. The database
itself is reachable."""

_OF_A_STATEMENT = ": ERROR:"
"""The severity in PostgreSQL's message if a statement failed; if the connection was ended, the severity is FATAL."""


def is_available(url: URL) -> bool:
    """Return whether the database at the URL is PostgreSQL and its ADBC driver is installed."""
    return url.get_backend_name() == "postgresql" and find_spec("adbc_driver_postgresql") is not None


class ArrowConnections:
    """A few ADBC connections to one PostgreSQL database, which raise the same errors as ``Database``.

    Args:
        url: The index's URL.
        shown: The URL without its password, for error messages.
        is_pooled: Returns whether a connection pooler such as PgBouncer is in front of the database.
    """

    def __init__(self, url: URL, shown: str, is_pooled: Callable[[], bool]) -> None:
        self._is_pooled = is_pooled
        libpq = url.set(drivername="postgresql")
        if "connect_timeout" not in libpq.query:
            libpq = libpq.update_query_dict({"connect_timeout": "10"})
        self._uri = libpq.render_as_string(hide_password=False)
        self._shown = shown
        self._driver: Any = import_module("adbc_driver_postgresql.dbapi")
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()

    def close(self) -> None:
        """Close the idle connections."""
        with suppress(queue.Empty):
            while True:
                self._close(self._idle.get_nowait())

    def read(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query, as they arrive.

        Args:
            statement: SQL with literal values: the driver uses COPY only for statements without parameters.
        """
        with self._translated():
            pooled = self._is_pooled()
            connection, cursor = self._execute(statement, in_transaction=pooled)
            finished = False
            try:
                yield from cursor.fetch_record_batch()
                if pooled:
                    cursor.executescript("COMMIT")
                finished = True
            finally:
                cursor.close()
                if finished and self._idle.qsize() < _KEPT:
                    self._idle.put(connection)
                else:
                    # The reader stopped early, so the server still sends the rest of the result on this connection: it
                    # cannot be reused.
                    self._close(connection)

    def _execute(self, statement: str, *, in_transaction: bool) -> tuple[Any, Any]:
        while True:
            try:
                connection, fresh = self._idle.get_nowait(), False
            except queue.Empty:
                connection, fresh = self._driver.connect(self._uri, autocommit=True), True
            cursor = connection.cursor()
            try:
                if in_transaction:
                    # Begin a transaction, in one request. The driver sends three requests for a read, and a pooler in
                    # transaction mode may send each request to another server connection unless all are in one
                    # transaction.
                    cursor.executescript(f"BEGIN; {SET_LOCAL}")
                elif fresh:
                    cursor.execute(_PREFER_INDEXES)
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES})
                cursor.execute(statement)
            except self._driver.Error:
                cursor.close()
                self._close(connection)
                # An idle connection may have died since its last use: try the next one. A new connection's error is a
                # real error.
                if fresh:
                    raise
            else:
                return connection, cursor

    def _close(self, connection: Any) -> None:  # noqa: ANN401 -- the driver publishes no types
        with suppress(self._driver.Error):  # closing a broken connection fails, too
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            database_error = next(iter(str(error).splitlines()), "")[:300]
            state = getattr(error, "sqlstate", None) or ""
            said_by_driver = getattr(getattr(error, "status_code", None), "name", None)
            if state.startswith(AWAY_STATES) if state else said_by_driver not in _NO_FAULT_OF_THE_DATABASE:
                unreachable = IndexUnavailableError(
                    f"The index {self._shown} cannot be reached or used: {database_error}. Check that the database is "
                    "running and that the address and credentials are right.",
                    {"index": self._shown},
                )
                raise failed(Subject.INDEX, unreachable) from error
            raise self._refused(database_error) from error
        except (OSError, pa.ArrowException) as error:
            # pyarrow raises these errors, without an SQLSTATE, if the database breaks off a result after its first
            # batch.
            database_error = next(iter(str(error).splitlines()), "")[:300]
            if _OF_A_STATEMENT in database_error and "cancel" not in database_error:
                raise self._refused(database_error) from error
            gone = IndexUnavailableError(
                f"The index {self._shown} broke off its answer: {database_error}. Check that the database is running.",
                {"index": self._shown},
            )
            raise failed(Subject.INDEX, gone) from error

    def _refused(self, database_error: str) -> CatalogExtError:
        refused = IndexDatabaseError(
            f"The index {self._shown} refused a statement: {database_error}.", {"index": self._shown}
        )
        return failed(Subject.INDEX, refused)


def with_values(statement: sa.ClauseElement, dialect: sa.Dialect) -> str:
    """Return the statement as SQL text of PostgreSQL, with its values as quoted literals."""
    literal = import_module("psycopg.sql").Literal
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    return str(compiled) % {name: literal(value).as_string(None) for name, value in compiled.params.items()}
