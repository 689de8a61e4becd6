"""The state of an index as a whole: unfinished transactions, pending messages, and its size."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.migration import require_same, revision_column
from catalog_ext.metastore.index.database.schema import followed_metastore, outbox, tables, transactions
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.transaction import State
    from catalog_ext.metastore.index.database.database import Database


@dataclass(frozen=True, slots=True)
class IndexState:
    """The unfinished transactions and the pending messages of an index, and its size.

    Attributes:
        pending: Messages that the metastore has not accepted.
        failing: Pending messages with a failed delivery.
        oldest_pending_s: The age of the oldest pending message in seconds; 0 without one.
        transactions: Transactions that have not ended, by state.
        abandoned: Open transactions whose owner sent no heartbeat for the time of its lease.
        oldest_transaction_s: The age of the oldest open transaction in seconds; 0 without one.
        tables: Tables, without views.
        partitions: The partitions of all tables.
        files: The files of all tables.
        bytes: The bytes of all files.
        followed_s: Seconds since the metastore was last followed; None if it never was.
    """

    pending: int
    failing: int
    oldest_pending_s: float
    transactions: Mapping[State, int]
    abandoned: int
    oldest_transaction_s: float
    tables: int
    partitions: int
    files: int
    bytes: int
    followed_s: float | None


def load(database: Database) -> IndexState:
    """Return the state, by one query of four small tables.

    Raises:
        IndexNotAtHeadError: Another process has migrated the index since it was opened.
        IndexUnavailableError: The database does not answer.
        IndexDatabaseError: The database refuses the query.
    """
    with database.reading() as connection:
        now = NOW_MS.label("now_ms")
        row = connection.execute(sa.select(now, revision_column().label("revision"), *_columns(now))).mappings().one()
    require_same(row["revision"])
    in_flight = {state: int(row[f"t_{state}"] or 0) for state in IN_FLIGHT}
    counts = ("pending", "failing", "abandoned", "tables", "partitions", "files", "bytes")
    return IndexState(
        **{name: int(row[name] or 0) for name in counts},
        oldest_pending_s=_age_s(row, "oldest_pending"),
        transactions=MappingProxyType(in_flight),
        oldest_transaction_s=_age_s(row, "oldest_transaction"),
        followed_s=None if row["followed"] is None else _age_s(row, "followed"),
    )


def _columns(now: sa.ColumnElement[int]) -> list[sa.ColumnElement[Any]]:
    t, living = transactions.c, transactions.c.state.in_([str(state) for state in IN_FLIGHT])
    is_table = tables.c.table_type != str(TableType.VIEW)

    def of(value: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
        return sa.select(value).where(*where).scalar_subquery()

    count = sa.func.count()
    return [
        sa.select(count).select_from(outbox).scalar_subquery().label("pending"),
        of(count, outbox.c.attempts > 0).label("failing"),
        of(sa.func.min(outbox.c.created_at_ms)).label("oldest_pending"),
        *(of(count, t.state == str(state)).label(f"t_{state}") for state in IN_FLIGHT),
        of(count, living, t.expires_at_ms < now).label("abandoned"),
        of(sa.func.min(t.began_at_ms), living).label("oldest_transaction"),
        of(count, is_table).label("tables"),
        of(sa.func.sum(tables.c.total_partitions), is_table).label("partitions"),
        of(sa.func.sum(tables.c.total_files), is_table).label("files"),
        of(sa.func.sum(tables.c.total_bytes), is_table).label("bytes"),
        of(sa.func.max(followed_metastore.c.looked_at_ms)).label("followed"),
    ]


def _age_s(row: sa.RowMapping, column: str) -> float:
    since = row[column]
    return 0.0 if since is None else max(0, int(row["now_ms"]) - int(since)) / 1000
