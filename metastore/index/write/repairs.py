"""The repairs that ran, and the paths that the last one skipped: the metadata tables ``repairs`` and ``skipped``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.rows import locked_row
from catalog_ext.metastore.index.database.schema import repairs, skipped_paths
from catalog_ext.metastore.index.write.verifications import Verifications

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

_TIME = pa.timestamp("ms", tz="UTC")
_COUNT = pa.int64()
_PAGE = 5000

REPAIRS_SCHEMA = pa.schema([
    pa.field("began_at", _TIME, nullable=False),
    pa.field("duration_ms", _COUNT, nullable=False),
    pa.field("mode", pa.string(), nullable=False),
    pa.field("where", pa.string()),
    pa.field("strict", pa.bool_(), nullable=False),
    pa.field("added", _COUNT, nullable=False),
    pa.field("dropped", _COUNT, nullable=False),
    pa.field("changed", _COUNT, nullable=False),
    pa.field("skipped", _COUNT, nullable=False),
    pa.field("version_before", _COUNT, nullable=False),
    pa.field("version_after", _COUNT, nullable=False),
    pa.field("owner", pa.string(), nullable=False),
    pa.field("error", pa.string()),
])  # fmt: skip
"""One row a repair: the metadata table ``repairs``."""

SKIPPED_SCHEMA = pa.schema([
    pa.field("path", pa.string(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("files", _COUNT, nullable=False),
    pa.field("bytes", _COUNT, nullable=False),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("skipped_at", _TIME, nullable=False),
])  # fmt: skip
"""One row a path that the last repair skipped: the metadata table ``skipped``."""

MOST_SKIPPED = 1000
"""Rows of ``skipped`` that are kept of a table; ``repairs`` has the whole count."""


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A path that a repair skipped.

    Attributes:
        path: Relative to the table's location.
        partition_name: The partition that it belongs to; ``''`` where it belongs to none.
        files: How many files it stands for.
        bytes: Their size.
        reason: Why the repair skipped it, in words.
    """

    path: str
    partition_name: str
    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """What is kept of one repair that was no preview.

    Attributes:
        table_id: The table's number.
        duration_ms: How long it took, in milliseconds.
        mode: ``add``, ``drop`` or ``sync``.
        limited_to: What limited it, in the user's words, or None.
        strict: 1 when it was to refuse what it would have skipped.
        owner: Names the process, for people.
        added: Partitions; so ``dropped`` and ``changed``.
        skipped: Paths.
        version_before: The table's version at the start; ``version_after`` at the end.
        error: Why it stopped, or None.
    """

    table_id: int
    duration_ms: int
    mode: str
    limited_to: str | None
    strict: int
    owner: str
    added: int
    dropped: int
    changed: int
    skipped: int
    version_before: int
    version_after: int
    error: str | None = None


class Repairs:
    """Reports of repairs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: RepairRecord, skipped: Sequence[SkippedPath] | None = None) -> None:
        """Keep the record of a repair that has just ended; when that was, the database says.

        Args:
            record: Of the repair.
            skipped: The paths that it skipped, of which the first ``MOST_SKIPPED`` replace those of the repair before;
                None leaves those.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        statement = _add_statement(self._database.dialect)

        def write(connection: sa.Connection) -> None:
            connection.execute(statement, asdict(record))
            if skipped is not None:
                _replace_skipped(connection, record.table_id, skipped[:MOST_SKIPPED])

        self._database.write(write)

    def skipped_rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the paths that the last repair of a table skipped, in the order of its report (``SKIPPED_SCHEMA``)."""
        s = skipped_paths.c
        select = sa.select(
            s.path, s.partition_name.label("partition"), s.files, s.bytes, s.reason, s.skipped_at_ms.label("skipped_at")
        ).where(s.table_id == table.table_id)
        with self._database.reading() as connection:
            found = connection.execute(select.order_by(s.position)).mappings().all()
        batch = pa.RecordBatch.from_pylist([dict(row) for row in found], schema=SKIPPED_SCHEMA)
        return pa.RecordBatchReader.from_batches(SKIPPED_SCHEMA, [batch])

    def rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the repairs of a table, newest first (``REPAIRS_SCHEMA``), in bounded memory."""
        r = repairs.c
        select = sa.select(repairs).where(r.table_id == table.table_id).order_by(r.repair_id.desc()).limit(_PAGE)

        def pages() -> Iterator[pa.RecordBatch]:
            page_of = select
            while True:
                with self._database.reading() as connection:
                    page = connection.execute(page_of).mappings().all()
                if not page:
                    return
                yield pa.RecordBatch.from_pylist([_row(dict(row)) for row in page], schema=REPAIRS_SCHEMA)
                page_of = select.where(r.repair_id < page[-1]["repair_id"])

        return pa.RecordBatchReader.from_batches(REPAIRS_SCHEMA, pages())

    def expire(self, table_id: int, before_ms: int, *, dry_run: bool = False) -> int:
        """Forget the repairs that had ended before a time, and what was verified before it; return how many repairs.

        Args:
            table_id: The table's number.
            before_ms: Milliseconds since the epoch, UTC.
            dry_run: Only count.
        """
        if not dry_run:
            Verifications(self._database).expire(table_id, before_ms)
        old = sa.and_(repairs.c.table_id == table_id, repairs.c.ended_at_ms < before_ms)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(sa.func.count()).where(old)).scalar() or 0
        if dry_run or not found:
            return found
        return self._database.write(lambda connection: int(connection.execute(sa.delete(repairs).where(old)).rowcount))


def _replace_skipped(connection: sa.Connection, table_id: int, skipped: Sequence[SkippedPath]) -> None:
    # Two repairs of a table may end at the same time, and would insert the same positions.
    table = locked_row(connection, table_id)
    connection.execute(sa.delete(skipped_paths).where(skipped_paths.c.table_id == table_id))
    if table is None or not skipped:
        return
    rows = [
        {"table_id": table_id, "position": position, "skipped_at_ms": table.now_ms, **asdict(path)}
        for position, path in enumerate(skipped)
    ]
    connection.execute(sa.insert(skipped_paths), rows)


@cache
def _add_statement(dialect: str) -> sa.Insert:
    now = database_now_ms(dialect).scalar_subquery()
    began = now - sa.bindparam("duration_ms", type_=sa.BigInteger())
    return sa.insert(repairs).values(began_at_ms=began, ended_at_ms=now)


def _row(kept: dict[str, object]) -> dict[str, object]:
    began, ended = kept["began_at_ms"], kept["ended_at_ms"]
    assert isinstance(began, int)
    assert isinstance(ended, int)
    return {
        **{name: kept[name] for name in REPAIRS_SCHEMA.names if name in kept},
        "began_at": began,
        "duration_ms": ended - began,
        "where": kept["limited_to"],
        "strict": bool(kept["strict"]),
    }
