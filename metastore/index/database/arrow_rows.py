"""Results as streams of Arrow batches, in bounded memory.

PostgreSQL's come through ADBC where its driver is installed; many rows of SQLite are spilled to a private file, which
ADBC reads; otherwise the driver's rows are packed in batches.

ADBC makes Arrow of a million rows several times as fast as Python's ``sqlite3``, and without the GIL. It carries a
SQLite library of its own, and two libraries in one process must not open one file: closing it in one of them drops the
POSIX locks of the other (``docs/spec/index.md``). So ``sqlite3`` alone opens the index. It copies the rows of the query
to a new file and closes that before ADBC opens it.
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
"""Rows that the driver reads as fast as ADBC would begin to."""

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
End = Callable[[], None]
Enough = Callable[[pa.RecordBatch], bool]


def stream(
    database: Database, statement: Query, schema: pa.Schema, step: Step, at_end: End, *, spills: bool = False,
    enough: Enough = lambda _: False,
) -> pa.RecordBatchReader:  # fmt: skip
    """Return the rows of a query as a stream.

    The first batch is read before this returns, so that a failing query fails here; a result of one batch keeps no
    connection.

    Args:
        database: The database to query.
        statement: A query whose first columns are those of the schema; more may follow, for the order.
        schema: The schema of the rows.
        step: Applied to each batch.
        at_end: Called when every batch has been read; may raise.
        spills: Whether SQLite may spill many rows: only for a SELECT without an order and without CTEs, with exactly
            the columns of the schema.
        enough: Returns, for the first rows before ``step``, whether the caller needs no more: then nothing is spilled.

    Raises:
        IndexUnavailableError: Too many streams are open and none of them ends.
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
    # The connection is back in the pool before the consumer sees the last batch.
    at_end()
    if last is not None:
        yield last


def _read(database: Database, statement: Query, schema: pa.Schema, enough: Enough | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows; SQLite's are spilled from ``FEW_ROWS`` on unless these are enough, with None never."""
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
            # SQLite's own cursor reads as it goes; making SQLAlchemy's rows of its rows would cost more than reading.
            fetch = result.cursor.fetchmany if is_sqlite else result.fetchmany
            rows = fetch(FEW_ROWS)
            if enough is None or not is_sqlite or len(rows) < FEW_ROWS or enough(to_batch(rows, schema)):
                while rows:
                    yield to_batch(rows, schema)
                    rows = fetch(BATCH_ROWS)
                return
            spilled = _spilled(database, connection, result, schema, kept)
        # The connection is back in the pool: a slow reader holds none.
        yield from _read(database, statement, schema, None) if spilled is None else spilled


def _spilled(
    database: Database, connection: sa.Connection, result: sa.CursorResult[Any], schema: pa.Schema, kept: ExitStack
) -> Iterator[pa.RecordBatch] | None:
    """Spill the rows of a running query, and return a reader of them; None if they cannot be spilled.

    ``kept`` deletes the file at its end.
    """
    # As the driver got it, not as the statement was made: lists are JSON there, and truth is 1.
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
    """Return a batch of the driver's rows; text may come as bytes, from binary columns."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.RecordBatch.from_arrays(
        [_array(column, field.type) for column, field in zip(columns, schema, strict=False)], schema=schema
    )


def _array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_string(data_type) and isinstance(next((v for v in values if v is not None), None), bytes):
        return pa.array(values, pa.binary()).cast(data_type)
    return pa.array(values, data_type)


# The file is gone with its reader: nothing of it is worth a journal, or waiting for the disk.
_PRAGMAS = ("page_size = 16384", "journal_mode = OFF", "synchronous = OFF")

SentQuery = tuple[str, "Sequence[Any]"]
"""The text of a SELECT as the driver gets it, and the values of its question marks."""


@contextmanager
def spill_file() -> Iterator[Path]:
    """Give an empty file for this user alone, in the temporary directory; it is deleted at the end of the block.

    Raises:
        OSError: No file can be made there, or SQLite cannot open one: it takes paths as UTF-8 text.
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
    """Write the rows of a query to a file, in the order in which SQLite finds them.

    The file is empty. The connection's transaction ends: a file cannot be attached within one. The query is a SELECT
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
        # Columns without a declared type keep each value as it is.
        driver.execute(f"CREATE TABLE spilled.result ({', '.join(f'c{i}' for i in range(len(schema)))})")
        driver.execute(f"INSERT INTO spilled.result SELECT {_typed_row(schema)} UNION ALL {text}", values)
    finally:
        driver.execute("DETACH spilled")


def _typed_row(schema: pa.Schema) -> str:
    """Return a row from which ADBC infers the column types: in other rows a column may have only NULL."""
    return ", ".join("''" if pa.types.is_string(field.type) else "0" for field in schema)


def read_spilled(file: Path, batch_rows: int, index: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that ``spill`` wrote, and delete the file as soon as it is open.

    Raises:
        IndexUnavailableError: The file cannot be read.
    """
    try:
        with _opened(file, batch_rows) as statement:
            stream, _ = statement.execute_query()
            # A process that is killed from here on leaves no file.
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
    """Give the query of a file's rows. ``adbc_driver_sqlite.dbapi`` would load pandas, which takes seconds."""
    # Nothing changes the file any more, so SQLite needs no locks on it.
    with (
        adbc_driver_sqlite.connect(f"{file.as_uri()}?mode=ro&immutable=1") as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
        adbc_driver_manager.AdbcStatement(connection) as statement,
    ):
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
        statement.set_sql_query("SELECT * FROM result")
        yield statement


_REFUSALS = (OSError, sqlite3.Error)
"""What ``spill_file`` and ``spill`` raise where the rows cannot be spilled."""
