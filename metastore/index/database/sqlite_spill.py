"""Spills a large SQLite result to a private file, which ADBC's driver then reads as Arrow batches.

ADBC makes Arrow of a million rows several times as fast as Python's ``sqlite3``, and without the GIL. It carries a
SQLite library of its own, and two libraries in one process must not open one file: closing it in one of them drops the
POSIX locks of the other (``docs/spec/index.md``). So ``sqlite3`` alone opens the index. It copies the rows of the query
to a new file and closes that before ADBC opens it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.runtime.measures import Subject, failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

# The file is gone with its reader: nothing of it is worth a journal, or waiting for the disk.
_PRAGMAS = ("page_size = 16384", "journal_mode = OFF", "synchronous = OFF")

Query = tuple[str, "Sequence[Any]"]
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


def spill(connection: sa.Connection, query: Query, schema: pa.Schema, file: Path) -> None:
    """Write the rows of a query to a file, in the order in which SQLite finds them.

    Args:
        connection: Of the index. Its transaction ends: a file cannot be attached within one.
        query: A SELECT without an order and without CTEs, with as many columns as the schema.
        schema: Of the rows.
        file: An empty file.

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
        # Columns without a type keep each value as it is.
        driver.execute(f"CREATE TABLE spilled.result ({', '.join(f'c{i}' for i in range(len(schema)))})")
        driver.execute(f"INSERT INTO spilled.result SELECT {_typed_row(schema)} UNION ALL {text}", values)
    finally:
        driver.execute("DETACH spilled")


def _typed_row(schema: pa.Schema) -> str:
    """Return a row by which ADBC infers the types of columns: the others may have NULL alone."""
    return ", ".join("''" if pa.types.is_string(field.type) else "0" for field in schema)


def read(file: Path, batch_rows: int, index: str) -> Iterator[pa.RecordBatch]:
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
    # Nothing changes the file any more, so that SQLite needs no locks on it.
    with (
        adbc_driver_sqlite.connect(f"{file.as_uri()}?mode=ro&immutable=1") as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
        adbc_driver_manager.AdbcStatement(connection) as statement,
    ):
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
        statement.set_sql_query("SELECT * FROM result")
        yield statement


REFUSALS = (OSError, sqlite3.Error)
"""What ``spill_file`` and ``spill`` raise where the rows cannot be spilled."""
