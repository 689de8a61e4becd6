"""Query results as streams of Arrow batches, in bounded memory.

On PostgreSQL the rows come through ADBC if its driver is installed. On SQLite many rows are spilled to a private file,
which ADBC reads. In all other cases the rows of the SQLAlchemy driver are packed into batches.

ADBC converts a million rows to Arrow several times as fast as Python's ``sqlite3``, and without the GIL. It contains
its own SQLite library, and two SQLite libraries in one process must not open the same file: when one of them closes the
file, the POSIX locks of the other are lost (``docs/spec/index.md``). So only ``sqlite3`` opens the index. It copies the
rows of the query to a new file and closes that file before ADBC opens it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.database import adbc
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.runtime.measures import Subject, failed

if TYPE_CHECKING:
    import sqlalchemy as sa

    from catalog_ext.metastore.index.database.database import Database

    Query: TypeAlias = sa.Select[Any] | sa.CompoundSelect[Any]

logger = logging.getLogger(__name__)

BATCH_ROWS = 16_384
"""Rows of one batch: about two megabytes."""

FEW_ROWS = 2048
"""Up to so many rows, ``sqlite3`` has read the result by the time that ADBC would begin."""

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
End = Callable[[], None]
Enough = Callable[[pa.RecordBatch], bool]


def stream(
    database: Database, statement: Query, schema: pa.Schema, step: Step, at_end: End, *, spills: bool = False,
    enough: Enough = lambda _: False,
) -> pa.RecordBatchReader:  # fmt: skip
    """Return the rows of a query as a stream.

    The first batch is read before this returns, so that a failing query fails here. A result of one batch keeps no
    connection.

    Args:
        database: The database to query.
        statement: A query whose first columns are those of the schema; more may follow, for the order.
        schema: The schema of the rows.
        step: Applied to each batch.
        at_end: Called when every batch has been read; may raise.
        spills: Whether SQLite may spill many rows: only for a SELECT without an order and without CTEs, with exactly
            the columns of the schema.
        enough: Gets the first rows before ``step`` is applied, and returns whether the caller needs no further rows:
            then nothing is spilled.

    Raises:
        IndexUnavailableError: Too many streams are open, and no stream ended in time.
    """
    read = _in_turn(database, _read(database, statement, schema, enough if spills else None))
    batches = _batches(read, step, at_end)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(schema, chain([first], batches))


def _in_turn(database: Database, read: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with database.streaming():
        yield from read


def _batches(read: Iterator[pa.RecordBatch], step: Step, at_end: End) -> Iterator[pa.RecordBatch]:
    last: pa.RecordBatch | None = None
    for batch in read:
        if last is not None:
            yield last
        last = step(batch)
    # ``_read`` has ended, so the connection is back in the pool before the consumer sees the last batch.
    at_end()
    if last is not None:
        yield last


def _read(database: Database, statement: Query, schema: pa.Schema, enough: Enough | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query; on SQLite, results of ``FEW_ROWS`` rows or more are spilled to a file.

    Nothing is spilled if ``enough`` returns true for the first rows, or is None.
    """
    if database.arrow is not None:
        database.count_statement()
        text = adbc.with_values(statement, database.engine.dialect)
        for batch in database.arrow.read(text):
            yield _as(schema, batch)
        return
    with ExitStack() as kept:
        with database.reading(streams=True) as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            if not is_sqlite:
                connection = connection.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS)
            result = connection.execute(statement)
            # Read from SQLite's own cursor, which fetches rows lazily. Making SQLAlchemy's row objects would cost more
            # time than the query.
            fetch = result.cursor.fetchmany if is_sqlite else result.fetchmany
            rows = fetch(FEW_ROWS)
            if enough is None or not is_sqlite or len(rows) < FEW_ROWS or enough(to_batch(rows, schema)):
                while rows:
                    yield to_batch(rows, schema)
                    rows = fetch(BATCH_ROWS)
                return
            spilled = _spilled(database, connection, result, schema, kept)
        # The connection is back in the pool while the file is read, so a slow reader does not occupy a connection.
        yield from _read(database, statement, schema, None) if spilled is None else spilled


def _spilled(
    database: Database, connection: sa.Connection, result: sa.CursorResult[Any], schema: pa.Schema, kept: ExitStack
) -> Iterator[pa.RecordBatch] | None:
    """Spill the rows of a running query to a file, and return a reader of the file; None if spilling fails.

    ``kept`` deletes the file when it is closed.
    """
    # Take the SQL and the values that SQLAlchemy gave to the driver: it has replaced lists by JSON, and booleans by 0
    # and 1.
    query = str(result.context.statement), tuple(result.context.parameters[0])
    result.close()
    try:
        file = kept.enter_context(spill_file())
        spill(connection, query, schema, file)
    except _REFUSALS as error:
        logger.warning(
            "Many rows of the index %s are read slowly, since they cannot be copied to the temporary directory (TMPDIR "
            "or SQLITE_TMPDIR): %s", database.shown, error,
        )  # fmt: skip
        return None
    return (_as(schema, batch) for batch in read_spilled(file, BATCH_ROWS, database.shown))


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of the driver's rows; texts may be given as bytes, since some columns are binary."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.RecordBatch.from_arrays(
        [_array(column, field.type) for column, field in zip(columns, schema, strict=False)], schema=schema
    )


def _array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_string(data_type) and isinstance(next((v for v in values if v is not None), None), bytes):
        return pa.array(values, pa.binary()).cast(data_type)
    return pa.array(values, data_type)


# The file is deleted with its reader, so it needs neither a journal nor a sync to the disk.
_PRAGMAS = ("page_size = 16384", "journal_mode = OFF", "synchronous = OFF")

SentQuery = tuple[str, "Sequence[Any]"]
"""The text of a SELECT as the driver gets it, and the values of its question marks."""


@contextmanager
def spill_file() -> Iterator[Path]:
    """Give an empty file for this user alone, in the temporary directory; it is deleted at the end of the block.

    Raises:
        OSError: The file cannot be created in the temporary directory, or its path is not UTF-8, which SQLite requires.
    """
    folder = os.environ.get("SQLITE_TMPDIR") or tempfile.gettempdir()
    if not is_storable(folder):
        raise OSError(errno.EILSEQ, "The path is not UTF-8", folder)
    handle, name = tempfile.mkstemp(prefix="catalog-ext-rows-", dir=folder)
    os.close(handle)
    file = Path(name)
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def spill(connection: sa.Connection, query: SentQuery, schema: pa.Schema, file: Path) -> None:
    """Write the rows of a query to an empty file, in the order in which SQLite finds them.

    The connection's transaction ends, because SQLite cannot attach a file within a transaction. The query is a SELECT
    without an order and without CTEs, with as many columns as the schema.

    Raises:
        sqlite3.Error: SQLite cannot run the query, or the disk of the file is full.
    """
    text, values = query
    connection.rollback()
    driver: Any = connection.connection.dbapi_connection
    driver.execute("ATTACH ? AS spilled", (str(file),))
    try:
        for pragma in _PRAGMAS:
            driver.execute(f"PRAGMA spilled.{pragma}")
        # SQLite converts no value of a column that has no declared type.
        driver.execute(f"CREATE TABLE spilled.result ({', '.join(f'c{i}' for i in range(len(schema)))})")
        driver.execute(f"INSERT INTO spilled.result SELECT {_typed_row(schema)} UNION ALL {text}", values)
    finally:
        driver.execute("DETACH spilled")


def _typed_row(schema: pa.Schema) -> str:
    """Return a SELECT of one row with typed values, which goes before the result: ADBC infers column types from it.

    Without this row, a column that has only NULL in the first rows would get no type.
    """
    return ", ".join("''" if pa.types.is_string(field.type) else "0" for field in schema)


def read_spilled(file: Path, batch_rows: int, index: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that ``spill`` wrote, and delete the file as soon as it is open.

    Raises:
        IndexUnavailableError: The file cannot be read.
    """
    try:
        with _opened(file, batch_rows) as statement:
            stream, _ = statement.execute_query()
            # Delete the file while it is open: a process that is killed later leaves no file behind.
            file.unlink()
            batches = pa.RecordBatchReader.from_stream(stream)
            yield next(batches).slice(1)
            yield from batches
    except (adbc_driver_manager.Error, OSError, pa.ArrowException) as error:
        unavailable = IndexUnavailableError(
            f"The rows of the index {index} that were copied to {file} cannot be read: {' '.join(str(error).split())}. "
            "Check the disk of the temporary directory, and run the statement again.",
            {"index": index},
        )
        raise failed(Subject.INDEX, unavailable) from error


@contextmanager
def _opened(file: Path, batch_rows: int) -> Iterator[adbc_driver_manager.AdbcStatement]:
    """Give an ADBC statement that selects all rows of a spilled file.

    The low-level driver is used because ``adbc_driver_sqlite.dbapi`` would load pandas, which takes seconds.
    """
    # No process changes the file from now on, so SQLite is opened without locks (``immutable``).
    with (
        adbc_driver_sqlite.connect(f"{file.as_uri()}?mode=ro&immutable=1") as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
        adbc_driver_manager.AdbcStatement(connection) as statement,
    ):
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
        statement.set_sql_query("SELECT * FROM result")
        yield statement


_REFUSALS = (OSError, sqlite3.Error)
"""Errors of ``spill_file`` and ``spill`` if the rows cannot be spilled."""
