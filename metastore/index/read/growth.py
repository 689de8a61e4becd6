"""How a table has grown, and who changed it: what the history comes to by the time of the commits."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.schema import partition_sums, repairs, table_versions, transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

IDLE_REPAIR = "repair that changed nothing"
"""What the counts of commits call repairs that have made none."""

_SUMS = ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")


@dataclass(frozen=True, slots=True)
class Size:
    """What a table had at the end of an interval.

    Attributes:
        at_ms: The interval's beginning, milliseconds since the epoch, UTC.
        rows: None while the rows of one partition are unknown.
    """

    at_ms: int
    partitions: int
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class CommitCount:
    """How many commits of one kind an interval has.

    Attributes:
        at_ms: The interval's beginning, milliseconds since the epoch, UTC.
        operation: As the history has it.
    """

    at_ms: int
    operation: str
    commits: int


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """A commit, or a repair.

    Attributes:
        at_ms: When it ended, milliseconds since the epoch, UTC.
        kind: ``commit`` or ``repair``.
        operation: As the history has it; of a repair its mode.
        who: The user as far as he is known, and the process.
        version: What it made; None for a repair that changed nothing.
        summary: Of a commit its summary, of a repair ``added``, ``dropped``, ``changed``, ``skipped`` and ``where``.
        duration_ms: How long it took, where that is known.
        error: Why it stopped, or None.
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
    """A place among the commits and repairs of a table.

    Attributes:
        version: Of the commit that they come after, the newest first; None for the first of them.
        repair: When the repair ended that they come after, and its number; None for the first of them.
    """

    version: int | None
    repair: tuple[int, int] | None


class TableHistory:
    """The size, the commits and the repairs of a table over time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def history_span(self, table: Table) -> tuple[int, int] | None:
        """Return the times of the first and the last kept commit or repair; None for a table without any."""
        v, r = table_versions.c, repairs.c
        commits = sa.select(sa.func.min(v.committed_at_ms), sa.func.max(v.committed_at_ms)).where(*_up_to(table))
        # A table without writes may be repaired every night: the last repair can be years after the last commit.
        ran = sa.select(sa.func.min(r.ended_at_ms), sa.func.max(r.ended_at_ms)).where(r.table_id == table.table_id)
        with self._database.reading() as connection:
            times = [at for each in (commits, ran) for at in connection.execute(each).one() if at is not None]
        return (min(times), max(times)) if times else None

    def growth(self, table: Table, step_ms: int) -> list[Size]:
        """Return the table's size at the end of each interval of ``step_ms`` in which it changed."""
        v, s = table_versions.c, partition_sums.c
        at = _interval(v.committed_at_ms, step_ms).label("at")
        sums = [total(s[name]) for name in _SUMS]
        statement = (
            sa.select(at, *sums)
            .select_from(
                partition_sums.join(table_versions, sa.and_(v.table_id == s.table_id, v.version == s.version))
            )
            .where(s.table_id == table.table_id, s.depth == 0, s.version <= table.version)
            .group_by(at).order_by(at)
        )  # fmt: skip
        sizes: list[Size] = []
        totals = [0] * len(_SUMS)
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

        Intervals without any are left out.
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
        """Return commits and repairs, newest first, and the position of the next ones.

        The commit of a repair is part of the repair's event.

        Args:
            table: The table.
            before: The position after which events are returned; None for the newest.
            limit: The most events to return.
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


def _newest(
    ran: deque[tuple[HistoryEvent, int]], made: deque[HistoryEvent], place: GrowthPosition, limit: int
) -> tuple[list[HistoryEvent], GrowthPosition | None]:
    """Merge repairs (with their numbers) and commits, newest first, and return the position of the next ones."""
    events: list[HistoryEvent] = []
    # Each kind keeps its own order, also after a clock moved back: so no event is repeated or left out.
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
    # A literal, not a parameter: PostgreSQL takes an expression with parameters for another one in GROUP BY.
    return sa.cast(column // sa.literal_column(str(int(step_ms)), sa.BigInteger), sa.BigInteger)
