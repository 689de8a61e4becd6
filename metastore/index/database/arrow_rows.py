"""Results of queries as streams of Arrow batches, in bounded memory.

PostgreSQL's come through ADBC where its driver is installed; many rows of a SQLite file come from another process,
which reads it through ADBC; otherwise the driver's rows are packed in batches. In this process the ADBC driver for
SQLite must not be used, since it carries a SQLite of its own: POSIX locks belong to the process, so that closing its
connection silently drops the locks which Python's SQLite holds on the same file, and another process could then write
amid our transaction (``docs/spec/index.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from catalog_ext.metastore.index.database import adbc

if TYPE_CHECKING:
    import sqlalchemy as sa

    from catalog_ext.metastore.index.database.database import Database

    Query: TypeAlias = sa.Select[Any] | sa.CompoundSelect[Any]

BATCH_ROWS = 16_384
"""Rows of one batch: about two megabytes."""

FEW_ROWS = 2048
"""What the driver has read before another process could have answered."""

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
End = Callable[[], None]


def stream(
    database: Database, statement: Query, schema: pa.Schema, step: Step, at_end: End, *, elsewhere: bool = False
) -> pa.RecordBatchReader:
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

    Raises:
        IndexUnavailableError: The database is gone or locked.
        IndexDatabaseError: It refused the query.
    """
    batches = _batches(_read(database, statement, schema, elsewhere=elsewhere), step, at_end)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(schema, _chain(first, batches))


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


def _read(database: Database, statement: Query, schema: pa.Schema, *, elsewhere: bool) -> Iterator[pa.RecordBatch]:
    if database.arrow is not None:
        database.count_statement()
        text = adbc.with_values(statement, database.engine.dialect)
        for batch in database.arrow.read(text):
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=False)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        return
    with database.reading(streams=True) as connection:
        fetch = _fetcher(connection, statement)
        rows = fetch(FEW_ROWS)
        if len(rows) < FEW_ROWS or not elsewhere or database.sqlite_readers is None:
            while rows:
                yield to_batch(rows, schema)
                rows = fetch(BATCH_ROWS)
            return
    yield from _read_elsewhere(database, statement, schema)


def _read_elsewhere(database: Database, statement: Query, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    assert database.sqlite_readers is not None
    compiled = statement.compile(dialect=database.engine.dialect, compile_kwargs={"render_postcompile": True})
    # By the first rows the driver tells the types of columns, which may all be NULL.
    types = ", ".join("''" if pa.types.is_string(field.type) else "0" for field in schema)
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    batches = database.sqlite_readers.read(f"SELECT {types} UNION ALL {compiled}", values)
    first = True
    for batch in batches:
        rows = batch.slice(1) if first else batch
        first = False
        arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=False)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fetcher(connection: sa.Connection, statement: Query) -> Callable[[int], Sequence[Sequence[Any]]]:
    if connection.dialect.name == "sqlite":
        # The driver's own cursor reads as it goes; making SQLAlchemy's rows of its rows would cost more than reading.
        fetch: Callable[[int], Sequence[Sequence[Any]]] = connection.execute(statement).cursor.fetchmany
        return fetch
    streaming = connection.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS)
    return streaming.execute(statement).fetchmany


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
