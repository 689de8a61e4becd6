"""Overviews of the index for people: sums, sizes, growth and the newest events, in queries with bounded answers."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    files,
    followed_tables,
    outbox,
    partition_sums,
    partitions,
    repairs,
    table_versions,
    transactions,
    verifications,
)
from catalog_ext.metastore.index.read.marked_rows import in_order
from catalog_ext.metastore.index.read.partition_groups import SUMS
from catalog_ext.metastore.index.read.partition_map import PartitionCounts
from catalog_ext.metastore.index.read.table_list import TableList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


IDLE_REPAIR = "repair that changed nothing"
"""The operation under which ``commit_counts`` counts repairs that made no commit."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a table at the end of an interval.

    Attributes:
        at_ms: The beginning of the interval, in milliseconds since the epoch, UTC.
        rows: The number of rows; None if the row count of a partition is unknown.
    """

    at_ms: int
    partitions: int
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class CommitCount:
    """The number of commits of one kind in an interval.

    Attributes:
        at_ms: The beginning of the interval, in milliseconds since the epoch, UTC.
        operation: The operation, as in the table's history.
    """

    at_ms: int
    operation: str
    commits: int


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """A commit or a repair in a table's history.

    Attributes:
        at_ms: Its end, in milliseconds since the epoch, UTC.
        kind: ``commit`` or ``repair``.
        operation: The operation as in the history; for a repair its mode.
        who: The user, if known, and the process.
        version: The table version that it made; None for a repair that changed nothing.
        summary: The summary of a commit; for a repair ``added``, ``dropped``, ``changed``, ``skipped`` and ``where``.
        duration_ms: The duration in milliseconds, if known.
        error: The reason why it stopped early, or None.
    """

    at_ms: int
    kind: str
    operation: str
    who: str | None
    version: int | None
    summary: Mapping[str, Any]
    duration_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GrowthPosition:
    """A position in the list of a table's commits and repairs (newest first), from which the next page continues.

    Attributes:
        version: The version of the last returned commit; None if no commit was returned yet.
        repair: The end time and number of the last returned repair; None if no repair was returned yet.
    """

    version: int | None
    repair: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The number and bytes of the files in one size class of a histogram.

    Attributes:
        least: The least size in bytes of this class.
        below: The upper bound of the class in bytes, exclusive; None for no bound.
    """

    least: int
    below: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """A partition whose average file size is small, with the number and bytes of its files."""

    partition: str
    files: int
    bytes: int


class Overviews(IndexPart):
    """Queries for overviews of an open index; they change nothing, and raise the errors of ``Index``.

    Attributes:
        tables: The tables and views with their sums.
        partitions: The partitions of a table by the values of its partition columns.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.tables = TableList(database)
        self.partitions = PartitionCounts(database)

    def history_span(self, table: Table) -> tuple[int, int] | None:
        """Return the times of the first and the last recorded commit or repair; None for a table without both."""
        v, r = table_versions.c, repairs.c
        commits = sa.select(sa.func.min(v.committed_at_ms), sa.func.max(v.committed_at_ms)).where(*_up_to(table))
        # The repairs count too: a table without writes may be repaired every night, years after its last commit.
        ran = sa.select(sa.func.min(r.ended_at_ms), sa.func.max(r.ended_at_ms)).where(r.table_id == table.table_id)
        with self._database.reading() as connection:
            times = [at for each in (commits, ran) for at in connection.execute(each).one() if at is not None]
        return (min(times), max(times)) if times else None

    def growth(self, table: Table, step_ms: int) -> list[Size]:
        """Return the table's size at the end of each interval of ``step_ms`` in which it changed."""
        v, s = table_versions.c, partition_sums.c
        at = _interval(v.committed_at_ms, step_ms).label("at")
        sums = [total(s[name]) for name in SUMS]
        statement = (
            sa.select(at, *sums)
            .select_from(
                partition_sums.join(table_versions, sa.and_(v.table_id == s.table_id, v.version == s.version))
            )
            .where(s.table_id == table.table_id, s.depth == 0, s.version <= table.version)
            .group_by(at).order_by(at)
        )  # fmt: skip
        sizes: list[Size] = []
        totals = [0] * len(SUMS)
        with self._database.reading() as connection:
            for row in connection.execute(statement):
                totals = [before + int(change) for before, change in zip(totals, row[1:], strict=True)]
                n_partitions, n_files, n_bytes, n_rows, n_uncounted = totals
                sizes.append(
                    Size(int(row.at) * step_ms, n_partitions, n_files, n_bytes, None if n_uncounted else n_rows)
                )
        return sizes

    def commit_counts(self, table: Table, step_ms: int) -> list[CommitCount]:
        """Count the commits of each kind, and the repairs without a commit, by intervals of ``step_ms``.

        Intervals without a commit or repair are left out.
        """
        v, r = table_versions.c, repairs.c
        at, ran_at = _interval(v.committed_at_ms, step_ms).label("at"), _interval(r.ended_at_ms, step_ms).label("at")
        commits = sa.select(at, v.operation, sa.func.count()).where(*_up_to(table)).group_by(at, v.operation)
        idle = sa.select(ran_at, sa.func.count()).where(
            r.table_id == table.table_id, r.version_after == r.version_before
        ).group_by(ran_at)  # fmt: skip
        with self._database.reading() as connection:
            found = [CommitCount(int(row[0]) * step_ms, row[1], row[2]) for row in connection.execute(commits)]
            found += [CommitCount(int(row[0]) * step_ms, IDLE_REPAIR, row[1]) for row in connection.execute(idle)]
        return sorted(found, key=lambda each: (each.at_ms, each.operation))

    def recent_events(
        self, table: Table, *, before: GrowthPosition | None, limit: int
    ) -> tuple[list[HistoryEvent], GrowthPosition | None]:
        """Return commits and repairs, newest first, and the position of the next page.

        The commit that a repair made is not a separate event: it is part of the repair's event.

        At most ``limit`` events after the position ``before`` are returned; None starts at the newest.
        """
        v, t, r = table_versions.c, transactions.c, repairs.c
        of_repair = sa.exists().where(
            r.table_id == table.table_id, r.version_before < v.version, r.version_after >= v.version
        )
        commits = (
            sa.select(v.version, v.operation, v.committed_at_ms, v.summary, t.owner, t.began_at_ms)
            .select_from(table_versions.outerjoin(transactions, t.transaction_id == v.transaction_id))
            .where(*_up_to(table), sa.or_(v.operation != "repair", ~of_repair))
            .order_by(v.version.desc()).limit(limit + 1)
        )  # fmt: skip
        repaired = (
            sa.select(repairs).where(r.table_id == table.table_id)
            .order_by(r.ended_at_ms.desc(), r.repair_id.desc()).limit(limit + 1)
        )  # fmt: skip
        place = before or GrowthPosition(None, None)
        if place.version is not None:
            commits = commits.where(v.version < place.version)
        if place.repair is not None:
            ended_at_ms, repair_id = place.repair
            at_once = sa.and_(r.ended_at_ms == ended_at_ms, r.repair_id < repair_id)
            repaired = repaired.where(r.ended_at_ms <= ended_at_ms, sa.or_(r.ended_at_ms < ended_at_ms, at_once))
        with self._database.reading() as connection:
            ran = deque((_repair(row), row["repair_id"]) for row in connection.execute(repaired).mappings())
            made = deque(_commit(row) for row in connection.execute(commits).mappings())
        return _newest(ran, made, place, limit)

    def count_sizes(self, table: Table, edges: Sequence[int], every: int = 1) -> list[SizeClass]:
        """Count the table's files by size classes, in one query.

        ``edges`` are the lower bounds of the classes in bytes, ascending; the first class begins at 0. With ``every``,
        only each ``every``-th partition id is read: a sample for a table with very many files.
        """
        f = files.c
        number = sa.case(
            *((f.size < edge, i) for i, edge in enumerate(edges)), else_=sa.literal_column(str(len(edges)))
        ).label("number")  # fmt: skip
        rows = (
            sa.select(number, sa.func.count().label("n"), total(f.size).label("size"))
            .where(*in_order(files, table))
            .group_by(number)
        )  # fmt: skip
        if every > 1:
            rows = rows.where(f.partition_id % sa.literal_column(str(every)) == sa.literal_column("0"))
        found: dict[int, tuple[int, int]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(rows):
                found[int(row.number)] = (row.n, int(row.size))
        bounds = [0, *edges]
        return [
            SizeClass(bounds[i], bounds[i + 1] if i < len(edges) else None, *found.get(i, (0, 0)))
            for i in range(len(edges) + 1)
        ]

    def small_file_partitions(self, table: Table, below: int, limit: int) -> list[SmallFiles]:
        """Return the partitions whose average file size is less than ``below`` bytes, most files first."""
        p = partitions.c
        statement = (
            sa.select(p.name, p.n_files, p.n_bytes)
            .where(*in_order(partitions, table))
            .where(p.n_files > 0, p.n_bytes < p.n_files * below)
            .order_by(p.n_files.desc(), p.partition_id).limit(limit)
        )  # fmt: skip
        with self._database.reading() as connection:
            return [SmallFiles(*row) for row in connection.execute(statement)]

    def compared_since(self, table: Table) -> int:
        """Return how many partitions were compared with the store individually since the last full comparison."""
        v = verifications.c
        statement = sa.select(sa.func.count()).where(v.table_id == table.table_id, v.name_hash != "")
        with self._database.reading() as connection:
            return int(connection.execute(statement).scalar_one())

    def compared_with_metastore(self, table: Table) -> int | None:
        """Return the table's version when a follower last compared it with the metastore; None if it never did."""
        f = followed_tables.c
        with self._database.reading() as connection:
            return connection.execute(sa.select(f.version).where(f.table_id == table.table_id)).scalar()

    def count_deliveries(self, table: Table | None) -> tuple[int, int]:
        """Return the number of pending outbox messages, and the number of failed ones among them.

        The messages of a table are selected by its name, as ``Outbox.pending`` does.
        """
        statement = sa.select(sa.func.count(), sa.func.count(outbox.c.last_error))
        if table is not None:
            named = table.identifier
            statement = statement.where(outbox.c.namespace == named.namespace, outbox.c.table_name == named.name)
        with self._database.reading() as connection:
            pending, failed = connection.execute(statement).one()
        return int(pending), int(failed)


def _newest(
    ran: deque[tuple[HistoryEvent, int]], made: deque[HistoryEvent], place: GrowthPosition, limit: int
) -> tuple[list[HistoryEvent], GrowthPosition | None]:
    """Merge repairs (with their numbers) and commits, newest first, and return the position of the next page."""
    events: list[HistoryEvent] = []
    # Commits and repairs each keep their own order, also if a clock was set back, and the position has a part for each.
    # So paging neither repeats nor omits an event.
    while len(events) < limit and (ran or made):
        if not made or (ran and ran[0][0].at_ms >= made[0].at_ms):
            event, repair_id = ran.popleft()
            place = replace(place, repair=(event.at_ms, repair_id))
        else:
            event = made.popleft()
            place = replace(place, version=event.version)
        events.append(event)
    return events, place if ran or made else None


def _commit(row: sa.RowMapping) -> HistoryEvent:
    summary: dict[str, Any] = json.loads(row["summary"])
    began, at_ms = row["began_at_ms"], row["committed_at_ms"]
    who = row["owner"] or summary.get("user")
    duration = None if began is None else max(at_ms - began, 0)
    return HistoryEvent(at_ms, "commit", row["operation"], who, row["version"], summary, duration)


def _repair(row: sa.RowMapping) -> HistoryEvent:
    summary = {name: row[name] for name in ("added", "dropped", "changed", "skipped")}
    if row["limited_to"] is not None:
        summary["where"] = row["limited_to"]
    version = row["version_after"] if row["version_after"] > row["version_before"] else None
    return HistoryEvent(
        row["ended_at_ms"], "repair", row["mode"], row["owner"], version, summary,
        row["ended_at_ms"] - row["began_at_ms"], row["error"],
    )  # fmt: skip


def _up_to(table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    v = table_versions.c
    return v.table_id == table.table_id, v.version <= table.version


def _interval(column: sa.ColumnElement[Any], step_ms: int) -> sa.ColumnElement[Any]:
    # A literal, not a parameter: PostgreSQL would not recognize an expression with parameters as the one in GROUP BY.
    return sa.cast(column // sa.literal_column(str(int(step_ms)), sa.BigInteger), sa.BigInteger)
