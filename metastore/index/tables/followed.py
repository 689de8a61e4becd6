"""How far the metastore is followed, by which process, and which of its tables could not be synchronized."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import NOW_MS, now_ms
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    followed_doubts,
    followed_metastore,
    followed_tables,
    index_properties,
    table_versions,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.tables import incarnations as properties
from catalog_ext.metastore.index.write.outbox import ascii_safe
from catalog_ext.metastore.index.write.partition_rows import by_values
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import FROM_METASTORE
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.runtime.processes import is_gone

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from catalog_ext.metastore.model.tables import Table

PublishedStatistics: TypeAlias = "dict[tuple[str | None, ...], set[tuple[int, int, int]]]"
"""Files, bytes and seconds of a partition's states, by its values."""

_THE_ONE = 1
_AT_ONCE = 500
_FRESH = 0.6
"""The part of a lease with which it is not renewed yet: who looks every second need not write every second."""
_ERROR_LENGTH = 4000

LAST_EVENT, UNREAD = "followed.last-event", "followed.unread"
"""Properties of the index: the event at the cursor, and how often the log could not be read on after it."""

_PROPERTIES = sa.select(index_properties).where(index_properties.c.name.in_([LAST_EVENT, UNREAD]))

SIGN_OF_LIFE_MS = 10_000
"""How often a follower writes down that it looks, where nothing happens."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The state of the follower of the metastore.

    Attributes:
        metastore_id: The metastore whose log ``event_id`` counts; None before the first run.
        event_id: The last processed event; None if there is no log, or it has not been read yet.
        newest_id: The newest event that the metastore had in the last run.
        source: ``log`` or ``comparison``; None before the first run.
        looked_at_ms: The end of the last successful run, by the database's clock, as all times here.
        compared_at_ms: The time of the last full comparison.
        error: The reason why the last run failed; None if it did not.
        holder: The process that follows; None without one.
        held_for_ms: The remaining time of the holder's lease; not positive if the lease is over.
        now_ms: The database's time.
        mark: Identifies the event ``event_id``, as its reader wrote it; None if unknown.
        unread: The number of consecutive failures to read the log after ``event_id``.
    """

    metastore_id: str | None = None
    event_id: int | None = None
    newest_id: int | None = None
    source: str | None = None
    looked_at_ms: int | None = None
    compared_at_ms: int | None = None
    error: str | None = None
    holder: str | None = None
    held_for_ms: int = 0
    now_ms: int = 0
    mark: str | None = None
    unread: int = 0


@dataclass(frozen=True, slots=True)
class KeptDoubt:
    """A table of the metastore that could not be synchronized, or is refused.

    Attributes:
        table: ``namespace.table``, as the metastore has it.
        doubt: What is in doubt, as its reader has written it; None for a table that is refused.
        error: Why.
        attempts: How often it was tried.
        since_ms: Since when, by the database's clock.
        due: Whether it is time to try again; a refused one never is.
    """

    table: str
    doubt: str | None
    error: str
    attempts: int = 1
    since_ms: int = 0
    due: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last comparison of a table has seen.

    Attributes:
        version: The table's version that was compared.
        missing: Its partitions that the metastore did not have; None where they were too many.
        definition: What the metastore's table was, as its reader has written it.
    """

    version: int
    missing: frozenset[str] | None
    definition: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The result of one run of the follower; kept in one transaction.

    Attributes:
        metastore_id: The metastore that was followed.
        event_id: The last event that was processed, or kept as a doubt.
        newest_id: The newest event of the metastore.
        source: ``log`` or ``comparison``.
        compared: Whether everything was compared.
        settled: Tables that are in sync, or gone.
        kept: Tables that are not in sync; each is tried again after its ``pause_ms``.
        mark: Identifies the event ``event_id``; None if unknown.
    """

    metastore_id: str
    event_id: int | None
    newest_id: int | None
    source: str
    compared: bool = False
    settled: Collection[str] = ()
    kept: Sequence[tuple[KeptDoubt, int]] = ()
    mark: str | None = None


class FollowedMetastore(IndexPart):
    """The state of following in an open index; errors of the database are as in ``Index``."""

    def load(self) -> Followed:
        """Return the state of the follower."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(followed_metastore, NOW_MS.label("now_ms"))).mappings().one_or_none()
            of_log = {row.name: json.loads(row.value) for row in connection.execute(_PROPERTIES)}
        if row is None:
            return Followed()
        # What is said of another event, as by a release that does not know of it, says nothing of this one.
        marked, mark = of_log.get(LAST_EVENT, (None, None))
        after, unread = of_log.get(UNREAD, (None, 0))
        return Followed(
            row["metastore_id"], row["event_id"], row["newest_id"], row["source"], row["looked_at_ms"],
            row["compared_at_ms"], row["error"], row["holder"], row["held_until_ms"] - row["now_ms"], row["now_ms"],
            mark if marked == row["event_id"] else None, unread if after == row["event_id"] else 0,
        )  # fmt: skip

    def hold(self, holder: str, lease_ms: int) -> bool:
        """Return whether ``holder`` follows for so long: no other process does, or its lease is over, or it is gone."""
        self._make_row()
        state = self.load()
        if state.holder == holder and state.held_for_ms > lease_ms * _FRESH:
            return True
        before = state.holder
        # A process of this host that is gone does not renew its lease.
        free = before if before is not None and is_gone(before) else ""
        f = followed_metastore.c

        def work(connection: sa.Connection) -> bool:
            now = NOW_MS
            mine = sa.or_(f.holder.is_(None), f.holder.in_([holder, free]), f.held_until_ms <= now)
            taken = sa.update(followed_metastore).where(mine).values(holder=holder, held_until_ms=now + lease_ms)
            return connection.execute(taken).rowcount == 1

        return self._database.write(work, durable=False)

    def release(self, holder: str) -> None:
        """Release the lease of ``holder``, if it has one."""
        mine = followed_metastore.c.holder == holder
        freed = sa.update(followed_metastore).where(mine).values(holder=None, held_until_ms=0)
        self._database.write(lambda connection: connection.execute(freed))

    def advance(self, holder: str, progress: Progress) -> bool:
        """Keep all results of a look; return False, and keep nothing, where another process follows now."""

        def work(connection: sa.Connection) -> bool:
            now = NOW_MS
            values: dict[str, object] = {
                "metastore_id": progress.metastore_id, "event_id": progress.event_id, "newest_id": progress.newest_id,
                "source": progress.source, "looked_at_ms": now, "error": None,
            }  # fmt: skip
            if progress.compared:
                values["compared_at_ms"] = now
            mine = sa.update(followed_metastore).where(followed_metastore.c.holder == holder)
            if connection.execute(mine.values(values)).rowcount != 1:
                return False
            self._keep(connection, progress)
            removed = [UNREAD, LAST_EVENT]
            marks = {} if progress.mark is None else {LAST_EVENT: json.dumps([progress.event_id, progress.mark])}
            properties.replace_in(connection, marks, removed)
            return True

        return self._database.write(work)

    def note_failure(self, holder: str, error: str, unread: tuple[int, int] | None = None) -> None:
        """Record the reason of a failed run, unless another process follows now.

        ``unread`` is the event after which the log could not be read, and the number of consecutive failures; None for
        another kind of failure.
        """
        mine = sa.update(followed_metastore).where(followed_metastore.c.holder == holder)
        text = ascii_safe(error)[:_ERROR_LENGTH]

        def work(connection: sa.Connection) -> None:
            if connection.execute(mine.values(error=text)).rowcount == 1 and unread is not None:
                properties.replace_in(connection, {UNREAD: json.dumps(unread)})

        self._database.write(work, durable=False)

    def doubts(self) -> list[KeptDoubt]:
        """Return the tables that could not be synchronized, and the refused ones, by name."""
        d = followed_doubts.c
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(followed_doubts, NOW_MS.label("now_ms")).order_by(d.table_name))
            return [
                KeptDoubt(
                    row.table_name, row.doubt, row.error, row.attempts, row.since_ms,
                    row.doubt is not None and row.next_attempt_at_ms <= row.now_ms,
                )
                for row in rows
            ]  # fmt: skip

    def seen(self, table_id: int) -> Seen | None:
        """Return the state that the last comparison of a table saw; None without one."""
        row_of = sa.select(followed_tables).where(followed_tables.c.table_id == table_id)
        with self._database.reading() as connection:
            row = connection.execute(row_of).one_or_none()
        if row is None:
            return None
        missing = None if row.missing is None else frozenset(json.loads(row.missing))
        return Seen(row.version, missing, row.definition)

    def note_seen(self, table_id: int, seen: Seen) -> None:
        """Record the state that a comparison of a table saw."""
        missing = None if seen.missing is None else json.dumps(sorted(seen.missing))
        row = {"table_id": table_id, "version": seen.version, "missing": missing, "definition": seen.definition}

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(followed_tables).where(followed_tables.c.table_id == table_id))
            connection.execute(sa.insert(followed_tables), row)

        self._database.write(work, durable=False)

    def forget_seen(self) -> None:
        """Forget the states that comparisons saw: they do not apply to another, or a restored, metastore."""
        self._database.write(lambda connection: connection.execute(sa.delete(followed_tables)))

    def published_statistics(self, table: Table, names: Sequence[str]) -> PublishedStatistics:
        """Return the files, bytes and time in seconds that were published for partitions, at each of their changes.

        ``names`` are the partitions, in any spelling; the answer is keyed by their values, without expired versions.
        Versions that were taken over from the metastore are left out: they were not delivered, and an event of Hive in
        the same second may carry the statistics from before it, as that of a LOAD DATA of Hive 4 does.
        """
        v = table_versions.c
        dates: dict[int, int] = {}
        with self._database.reading() as connection:
            states = list(by_values(connection, table, names, sa.true()))
            for some in batched(sorted({state.begin_version for state in states}), _AT_ONCE):
                made = sa.select(v.version, v.committed_at_ms, v.operation, v.summary).where(
                    v.table_id == table.table_id, v.version.in_(some)
                )
                dates |= {
                    row.version: row.committed_at_ms // 1000
                    for row in connection.execute(made)
                    if row.operation != "import" and json.loads(row.summary).get("source") != FROM_METASTORE
                }
        found: PublishedStatistics = {}
        for state in states:
            if state.begin_version in dates:
                of_state = (state.files, state.bytes, dates[state.begin_version])
                found.setdefault(partition_values(state.name), set()).add(of_state)
        return found

    def oldest_version_s(self, table: Table) -> int:
        """Return when the oldest version of a table that is kept was made, in seconds; 0 where none is."""
        v = table_versions.c
        with self._database.reading() as connection:
            oldest = sa.select(sa.func.min(v.committed_at_ms)).where(v.table_id == table.table_id)
            return int(connection.execute(oldest).scalar() or 0) // 1000

    def _make_row(self) -> None:
        with self._database.reading() as connection:
            if connection.execute(sa.select(followed_metastore.c.follower_id)).scalar() is not None:
                return
        row = {"follower_id": _THE_ONE, "held_until_ms": 0}
        try:
            self._database.write(lambda connection: connection.execute(sa.insert(followed_metastore), row))
        except Exception as error:
            # Two processes inserted the row at the same time, and the other one was first.
            if error.__cause__ is None or not is_duplicate(error.__cause__):
                raise

    def _keep(self, connection: sa.Connection, progress: Progress) -> None:
        d, now = followed_doubts.c, now_ms(connection)
        since: dict[str, int] = {}
        for name in {*progress.settled, *(kept.table for kept, _ in progress.kept)}:
            mine = d.name_hash == name_hash(name)
            found = connection.execute(sa.select(d.since_ms).where(mine)).scalar()
            if found is not None:
                since[name] = found
                connection.execute(sa.delete(followed_doubts).where(mine))
        rows = [
            {
                "name_hash": name_hash(kept.table), "table_name": kept.table, "doubt": kept.doubt,
                "attempts": kept.attempts, "next_attempt_at_ms": now + pause_ms,
                "since_ms": since.get(kept.table, now), "error": ascii_safe(kept.error)[:_ERROR_LENGTH],
            }
            for kept, pause_ms in progress.kept
        ]  # fmt: skip
        if rows:
            connection.execute(sa.insert(followed_doubts), rows)
