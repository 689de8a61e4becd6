"""Results of queries as streams of Arrow batches, in bounded memory.

PostgreSQL's come through ADBC where its driver is installed; many rows of a SQLite file come from another process,
which reads it through ADBC; otherwise the driver's rows are packed in batches. In this process the ADBC driver for
SQLite must not be used, since it carries a SQLite of its own: POSIX locks belong to the process, so that closing its
connection silently drops the locks which Python's SQLite holds on the same file, and another process could then write
amid our transaction (``docs/spec/index.md``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from catalog_ext.metastore.errors import IndexDatabaseError
from catalog_ext.metastore.index.database import adbc

if TYPE_CHECKING:
    import sqlalchemy as sa

    from catalog_ext.metastore.index.database.database import Database

    Query: TypeAlias = sa.Select[Any] | sa.CompoundSelect[Any]

logger = logging.getLogger(__name__)

BATCH_ROWS = 16_384
"""Rows of one batch: about two megabytes."""

FEW_ROWS = 2048
"""What the driver has read before another process could have answered."""

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
End = Callable[[], None]


def stream(
    database: Database, statement: Query, schema: pa.Schema, step: Step, at_end: End, *, elsewhere: bool = False,
    few_rows: int = FEW_ROWS, enough: Callable[[pa.RecordBatch], bool] = lambda _: False,
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
        elsewhere: Whether another process may read many rows: of a SELECT without an order and without CTEs.
        few_rows: From how many rows on the other process reads them.
        enough: Says of those first rows, to which ``step`` was not applied, that nobody will ask for more: then no
            other process does.

    Raises:
        IndexUnavailableError: The database is gone or locked, or many streams are read that do not end.
        IndexDatabaseError: It refused the query.
    """
    read = _in_turn(database, _read(database, statement, schema, few_rows if elsewhere else None, enough))
    batches = _batches(read, step, at_end)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(schema, _chain(first, batches))


def _in_turn(database: Database, read: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with database.streaming():
        yield from read


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


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


def _read(
    database: Database, statement: Query, schema: pa.Schema, few_rows: int | None,
    enough: Callable[[pa.RecordBatch], bool] = lambda _: False,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield the rows; from ``few_rows`` on another process may read them, with None or where they are enough never."""
    if database.arrow is not None:
        database.count_statement()
        text = adbc.with_values(statement, database.engine.dialect)
        for batch in database.arrow.read(text):
            yield _as(schema, batch)
        return
    many = None if few_rows is None else database.sqlite_readers
    with ExitStack() as place:
        with database.reading(streams=True) as connection:
            result = _execute(connection, statement)
            # SQLite's own cursor reads as it goes; making SQLAlchemy's rows of its rows would cost more than reading.
            fetch = result.cursor.fetchmany if connection.dialect.name == "sqlite" else result.fetchmany
            rows = fetch(few_rows or FEW_ROWS)
            few = few_rows is None or len(rows) < few_rows or enough(to_batch(rows, schema))
            # Where so many processes read already, these rows come more slowly, and no sooner.
            if few or many is None or not many.reserve(place):
                while rows:
                    yield to_batch(rows, schema)
                    rows = fetch(BATCH_ROWS)
                return
            # What the driver got, not what the statement was made of: lists are JSON there, and truth is 1.
            text, values = str(result.context.statement), tuple(result.context.parameters[0])
        yield from _read_elsewhere(database, statement, schema, many.read(_typed(text, schema), values))


def _typed(text: str, schema: pa.Schema) -> str:
    # By the first row the ADBC driver tells the types of columns, which may all be NULL.
    types = ", ".join("''" if pa.types.is_string(field.type) else "0" for field in schema)
    return f"SELECT {types} UNION ALL {text}"


def _read_elsewhere(
    database: Database, statement: Query, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that another process reads; where it refuses the query, those that this one reads."""
    try:
        typed = next(batches)
    except IndexDatabaseError as refused:
        logger.warning("Many rows are read here, more slowly, since the process for that cannot: %s", refused.message)
        yield from _read(database, statement, schema, None)
        return
    yield _as(schema, typed.slice(1))
    for batch in batches:
        yield _as(schema, batch)


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
