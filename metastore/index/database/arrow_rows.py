"""Results as streams of Arrow batches, in bounded memory.

PostgreSQL's come through ADBC where its driver is installed; many rows of SQLite are spilled to a private file, which
ADBC reads (``sqlite_spill``); otherwise the driver's rows are packed in batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from catalog_ext.metastore.index.database import adbc, sqlite_spill

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
        database: Where to ask.
        statement: A query whose first columns are those of the schema; more may follow, for the order.
        schema: Of the rows.
        step: Applied to each batch.
        at_end: Called when every batch has been read; may raise.
        spills: Whether SQLite may spill many rows: of a SELECT without an order and without CTEs, with the columns of
            the schema alone.
        enough: Says of those first rows, to which ``step`` was not applied, that the caller needs no more: then nothing
            is spilled.

    Raises:
        IndexUnavailableError: The database is gone or locked, or many streams are read that do not end.
        IndexDatabaseError: It refused the query.
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
            result = _execute(connection, statement)
            is_sqlite = connection.dialect.name == "sqlite"
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
    """Spill the rows of a query that has begun, and return what reads them; None where they cannot be spilled.

    ``kept`` deletes the file at its end.
    """
    # As the driver got it, not as the statement was made: lists are JSON there, and truth is 1.
    query = str(result.context.statement), tuple(result.context.parameters[0])
    result.close()
    try:
        file = kept.enter_context(sqlite_spill.spill_file())
        sqlite_spill.spill(connection, query, schema, file)
    except sqlite_spill.REFUSALS as error:
        logger.warning(
            "Many rows of the index %s are read slowly, since they cannot be copied to the temporary directory (TMPDIR "
            "or SQLITE_TMPDIR): %s", database.shown, error,
        )  # fmt: skip
        return None
    return (_as(schema, batch) for batch in sqlite_spill.read(file, BATCH_ROWS, database.shown))


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _execute(connection: sa.Connection, statement: Query) -> sa.CursorResult[Any]:
    if connection.dialect.name == "sqlite":
        return connection.execute(statement)
    return connection.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS).execute(statement)


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
