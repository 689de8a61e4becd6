"""The versions of a table and its transactions, as metadata tables show them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import correct_future_dates
from catalog_ext.metastore.index.database.schema import ALIVE, table_versions, transaction_files, transactions
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


_COUNT = pa.int64()
_TIME = pa.timestamp("ms", tz="UTC")
_PAGE = 5000
_IN_QUERY = 500
_COUNTS = (
    "partitions_added", "partitions_removed", "partitions_changed", "files_added", "files_removed", "rows", "bytes",
    "rows_removed", "bytes_removed",
)  # fmt: skip

HISTORY_SCHEMA = pa.schema([
    pa.field("version", _COUNT, nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("committed_at", _TIME, nullable=False),
    pa.field("transaction", pa.string()),
    *(pa.field(name, _COUNT) for name in _COUNTS),
    pa.field("user", pa.string()),
    pa.field("summary", pa.string(), nullable=False),
])  # fmt: skip
"""One row a version: the metadata table ``history``."""

TRANSACTIONS_SCHEMA = pa.schema([
    pa.field("transaction", pa.string(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("owner", pa.string(), nullable=False),
    pa.field("began_at", _TIME, nullable=False),
    pa.field("expires_at", _TIME, nullable=False),
    pa.field("ended_at", _TIME),
    pa.field("base_version", _COUNT, nullable=False),
    pa.field("version", _COUNT),
    pa.field("app_id", pa.string()),
    pa.field("app_version", _COUNT),
    pa.field("files", _COUNT),
    pa.field("error", pa.string()),
])  # fmt: skip
"""One row a transaction: the metadata table ``transactions``."""


class History:
    """The versions and transactions of tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, table: Table) -> pa.RecordBatchReader:
        """Yield the versions of a table, newest first (``HISTORY_SCHEMA``), in bounded memory."""
        v = table_versions.c
        select = sa.select(v.version, v.operation, v.committed_at_ms, v.transaction_id, v.summary).where(
            v.table_id == table.table_id
        )

        def pages() -> Iterator[pa.RecordBatch]:
            before = ALIVE
            while True:
                with self._database.reading() as connection:
                    page = connection.execute(
                        select.where(v.version < before).order_by(v.version.desc()).limit(_PAGE)
                    ).all()
                if not page:
                    return
                yield pa.RecordBatch.from_pylist([_history_row(*row) for row in page], schema=HISTORY_SCHEMA)
                before = page[-1].version

        return pa.RecordBatchReader.from_batches(HISTORY_SCHEMA, pages())

    def transactions(self, table: Table) -> pa.RecordBatchReader:
        """Yield the transactions of a table that the index still knows, newest first (``TRANSACTIONS_SCHEMA``)."""
        t, f = transactions.c, transaction_files.c
        staged = (
            sa.select(f.transaction_id, sa.func.sum(f.n_files).label("files"))
            .where(f.removal == 0)
            .group_by(f.transaction_id)
            .subquery()
        )
        select = (
            sa.select(
                t.transaction_id.label("transaction"), t.operation, t.state, t.owner, t.began_at_ms.label("began_at"),
                t.expires_at_ms.label("expires_at"), t.ended_at_ms.label("ended_at"), t.base_version, t.version,
                t.app_id, t.app_version, sa.cast(staged.c.files, sa.BigInteger).label("files"), t.error,
            )
            .select_from(transactions.outerjoin(staged, staged.c.transaction_id == t.transaction_id))
            .where(t.table_id == table.table_id)
            .order_by(t.began_at_ms.desc(), t.transaction_id.desc())
        )  # fmt: skip

        def pages() -> Iterator[pa.RecordBatch]:
            with self._database.streaming(), self._database.reading(streams=True) as connection:
                result = connection.execution_options(stream_results=True, max_row_buffer=_PAGE).execute(select)
                for page in result.mappings().partitions(_PAGE):
                    yield pa.RecordBatch.from_pylist([dict(row) for row in page], schema=TRANSACTIONS_SCHEMA)

        return pa.RecordBatchReader.from_batches(TRANSACTIONS_SCHEMA, pages())

    def version_at(self, table_id: int, at_ms: int) -> int:
        """Return the newest version that, like all before it, was committed by a time; 0 when there is none.

        The time is in milliseconds since the epoch, UTC. Dates that lie far in the future are corrected first.
        """
        correct_future_dates(self._database, table_id)
        v, later = table_versions.c, table_versions.alias().c
        # Below the first that is younger: one that a wrong clock has dated in the past must not take those before it
        # along.
        younger = sa.select(sa.func.min(later.version)).where(later.table_id == table_id, later.committed_at_ms > at_ms)
        first = sa.func.coalesce(younger.scalar_subquery(), ALIVE)
        statement = sa.select(sa.func.max(v.version)).where(v.table_id == table_id, v.version < first)
        with self._database.reading() as connection:
            return connection.execute(statement).scalar() or 0

    def version_times(self, table_id: int, versions: Collection[int]) -> dict[int, int]:
        """Return when versions were committed (milliseconds since the epoch, UTC); forgotten ones are left out."""
        v = table_versions.c
        times: dict[int, int] = {}
        with self._database.reading() as connection:
            for some in batched(sorted(versions), _IN_QUERY):
                statement = sa.select(v.version, v.committed_at_ms).where(v.table_id == table_id, v.version.in_(some))
                times.update((version, at_ms) for version, at_ms in connection.execute(statement))
        return times


def _history_row(
    version: int, operation: str, committed_at_ms: int, transaction_id: str | None, summary: str
) -> dict[str, Any]:
    counts = json.loads(summary)
    return {
        "version": version,
        "operation": operation,
        "committed_at": committed_at_ms,
        "transaction": transaction_id,
        **{name: counts.get(name) for name in _COUNTS},
        "user": counts.get("user"),
        "summary": summary,
    }
