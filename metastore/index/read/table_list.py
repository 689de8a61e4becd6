"""A paged list of all tables with key figures of each, filtered and sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import namespaces, outbox, table_versions, tables, verifications
from catalog_ext.metastore.messages import SET_ASIDE_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import Table


class TableOrder(StrEnum):
    """The sort order of a list of tables; tables with equal values are sorted by name."""

    NAME = "name"
    PARTITIONS = "partitions"
    FILES = "files"
    BYTES = "bytes"
    COMMITTED = "committed"
    VERIFIED = "verified"
    PENDING = "pending"


class Pending(StrEnum):
    """Filters the listed tables by pending messages for the metastore."""

    ALL = "all"
    SOME = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table, and its key figures in the index.

    Attributes:
        table: The table or view.
        committed_at_ms: The commit time of its newest version, milliseconds since the epoch, UTC; None without a
            version.
        verified_at_ms: The time of the last full comparison with the store; None for never.
        pending: Messages that the metastore has not accepted.
        failed: Pending messages with a failed delivery.
        set_aside: Pending messages that were refused so often that they wait for an operator.
        pending_since_ms: The time when the oldest pending message was enqueued.
    """

    table: Table
    committed_at_ms: int | None
    verified_at_ms: int | None
    pending: int
    failed: int
    set_aside: int
    pending_since_ms: int | None


@dataclass(frozen=True, slots=True)
class TableListing:
    """A page of the list, and the sums over all tables that pass the filter.

    Attributes:
        tables: The number of tables, including views.
        pending: Their pending messages for the metastore; without a filter, also messages about dropped tables.
        failed: Pending messages with a failed delivery.
    """

    page: tuple[TableSummary, ...]
    tables: int
    partitions: int
    files: int
    bytes: int
    pending: int
    failed: int


class TableList(IndexPart):
    """The tables and views of an index with their sums."""

    def find(
        self,
        *,
        search: str = "",
        pending: Pending = Pending.ALL,
        order: TableOrder = TableOrder.NAME,
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> TableListing:
        """Return a page of the tables and views, by two queries regardless of their number.

        ``search`` is a part of the name; with a dot, the end of a namespace's name and the beginning of a table's.
        Tables for which the value of ``order`` is unknown come last.
        """
        t, o = tables.c, _undelivered()
        where = [_matches(search), *_of_pending(pending, o)]
        count, failed = sa.func.coalesce(o.c.pending, 0), sa.func.coalesce(o.c.failed, 0)
        sums = [*map(total, (t.total_partitions, t.total_files, t.total_bytes)), total(count), total(failed)]
        if not search.strip() and pending is Pending.ALL:
            # Without a filter, count all messages: also those about namespaces and dropped tables, where a DROP can
            # wait longest.
            sums[3:] = [sa.select(each).scalar_subquery() for each in (sa.func.count(outbox.c.outbox_id), _failed())]
        with self._database.reading() as connection:
            totals = connection.execute(sa.select(sa.func.count(), *sums).select_from(_source(o)).where(*where)).one()
            rows = connection.execute(
                _page(o).where(*where).order_by(*_ordered(order, descending, o)).limit(limit).offset(offset)
            ).mappings()
            page = tuple(map(_summary, rows))
        return TableListing(page, *map(int, totals))

    def load(self, table_id: int) -> TableSummary | None:
        """Return one table with its key figures; None if it does not exist."""
        o = _undelivered()
        with self._database.reading() as connection:
            row = connection.execute(_page(o).where(tables.c.table_id == table_id)).mappings().one_or_none()
        return None if row is None else _summary(row)


def _source(undelivered: sa.Subquery) -> sa.FromClause:
    named = tables.join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
    return named.outerjoin(undelivered, undelivered.c.table_id == tables.c.table_id)


def _page(undelivered: sa.Subquery) -> sa.Select[Any]:
    o = undelivered.c
    return sa.select(
        tables, namespaces.c.name.label("namespace"), _committed().label("committed_at_ms"),
        _verified().label("verified_at_ms"), o.pending, o.failed, o.set_aside, o.since_ms,
    ).select_from(_source(undelivered))  # fmt: skip


def _summary(row: sa.RowMapping) -> TableSummary:
    table = table_from_row(cast("Mapping[str, Any]", row))
    return TableSummary(
        table, row["committed_at_ms"], row["verified_at_ms"], int(row["pending"] or 0), int(row["failed"] or 0),
        int(row["set_aside"] or 0), row["since_ms"],
    )  # fmt: skip


def _undelivered() -> sa.Subquery:
    o = outbox.c
    return (
        sa.select(
            o.table_id,
            sa.func.count().label("pending"),
            _failed().label("failed"),
            total(sa.case((o.refusals >= SET_ASIDE_AFTER, 1), else_=0)).label("set_aside"),
            sa.func.min(o.created_at_ms).label("since_ms"),
        )
        .where(o.table_id.is_not(None))
        .group_by(o.table_id)
        .subquery("undelivered")
    )


def _failed() -> sa.ColumnElement[int]:
    return sa.func.count(outbox.c.last_error)


def _matches(search: str) -> sa.ColumnElement[bool]:
    name, namespace = tables.c.name, namespaces.c.name
    asked = search.strip().lower()
    if not asked:
        return sa.true()
    first, dot, last = asked.partition(".")
    if dot:
        return sa.and_(namespace.endswith(first, autoescape=True), name.startswith(last, autoescape=True))
    return sa.or_(namespace.contains(asked, autoescape=True), name.contains(asked, autoescape=True))


def _of_pending(pending: Pending, undelivered: sa.Subquery) -> list[sa.ColumnElement[bool]]:
    if pending is Pending.ALL:
        return []
    column = undelivered.c.pending if pending is Pending.SOME else undelivered.c.failed
    return [column > 0]


def _ordered(order: TableOrder, descending: bool, undelivered: sa.Subquery) -> list[sa.ColumnElement[Any]]:
    t = tables.c
    by_name: list[sa.ColumnElement[Any]] = [namespaces.c.name, t.name]
    if order is TableOrder.NAME:
        return [column.desc() for column in by_name] if descending else by_name
    column: sa.ColumnElement[Any] = {
        TableOrder.PARTITIONS: t.total_partitions,
        TableOrder.FILES: t.total_files,
        TableOrder.BYTES: t.total_bytes,
        TableOrder.COMMITTED: _committed(),
        TableOrder.VERIFIED: _verified(),
        TableOrder.PENDING: sa.func.coalesce(undelivered.c.pending, 0),
    }[order]
    # Sort NULL explicitly to the end, because the databases disagree about its position.
    return [sa.case((column.is_(None), 1), else_=0), column.desc() if descending else column, *by_name]


def _committed() -> sa.ScalarSelect[Any]:
    v, t = table_versions.c, tables.c
    found = sa.select(v.committed_at_ms).where(v.table_id == t.table_id, v.version == t.version)
    return found.correlate(tables).scalar_subquery()


def _verified() -> sa.ScalarSelect[Any]:
    v = verifications.c
    whole = sa.select(v.verified_at_ms).where(v.table_id == tables.c.table_id, v.name_hash == "")
    return whole.correlate(tables).scalar_subquery()
