"""The follower's state in the index: how far it has read the metastore's events, its lease, and its failed tables.

The follower is the process that brings changes of other engines from the metastore into the index.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import FAR_MS, NOW_MS, now_ms
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    followed_metastore,
    followed_suspects,
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
"""The published statistics of partitions: for each partition's values, the (files, bytes, time in seconds) of each
state."""

_THE_ONE = 1
_AT_ONCE = 500
_FRESH = 0.6
"""A lease is renewed only if at most this part of it is left: a follower that runs every second need not write every
second."""
_ERROR_LENGTH = 4000

LAST_EVENT, UNREAD = "followed.last-event", "followed.unread"
"""Properties of the index: the last processed event with its mark, and the number of failures to read the event log
after it."""

_PROPERTIES = sa.select(index_properties).where(index_properties.c.name.in_([LAST_EVENT, UNREAD]))

KEEPALIVE_MS = 10_000
"""The interval at which a follower records that it is running if there are no events."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The state of the follower of the metastore. All times are by the database's clock.

    Attributes:
        metastore_id: The metastore whose event log ``event_id`` refers to; None before the first run.
        event_id: The last processed event; None if the metastore has no log, or it has not been read yet.
        newest_id: The newest event that the metastore had in the last run.
        source: ``log`` or ``comparison``: how the last run found changes; None before the first run.
        looked_at_ms: The end of the last successful run.
        compared_at_ms: The time of the last comparison of all tables.
        error: The reason why the last run failed; None if it did not fail.
        holder: The process that follows the metastore now; None without such a process.
        held_for_ms: The remaining time of the holder's lease; zero or negative if the lease is over.
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
class KeptSuspect:
    """A table of the metastore that could not be synchronized, or that is refused.

    Attributes:
        table: ``namespace.table``, as the metastore spells it.
        suspect: What may differ from the index, in the follower's serialized form; None for a table that is refused.
        error: The reason why the table could not be synchronized or is refused.
        attempts: The number of failed attempts.
        since_ms: The time of the first failure, by the database's clock.
        due: Whether it is time to try again; never for a refused table.
    """

    table: str
    suspect: str | None
    error: str
    attempts: int = 1
    since_ms: int = 0
    due: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a table and of the metastore at their last comparison.

    Attributes:
        version: The table's version that was compared.
        missing: The table's partitions that the metastore did not have; None if they were too many to store.
        definition: The metastore's table, in the follower's serialized form.
    """

    version: int
    missing: frozenset[str] | None
    definition: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The result of one run of the follower, stored in one transaction.

    Attributes:
        metastore_id: The metastore that was followed.
        event_id: The last event whose changes were applied, or recorded in ``kept``.
        newest_id: The newest event of the metastore.
        source: ``log`` or ``comparison``: how the run found changes.
        compared: Whether all tables were compared.
        settled: Tables that are in sync now, or that no longer exist.
        kept: Tables that are not in sync, each with the milliseconds after which it is tried again.
        mark: Identifies the event ``event_id``; None if unknown.
    """

    metastore_id: str
    event_id: int | None
    newest_id: int | None
    source: str
    compared: bool = False
    settled: Collection[str] = ()
    kept: Sequence[tuple[KeptSuspect, int]] = ()
    mark: str | None = None


class FollowedMetastore(IndexPart):
    """Reads and writes the follower's state in an open index; raises the database errors of ``Index``."""

    def load(self) -> Followed:
        """Return the state of the follower."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(followed_metastore, NOW_MS.label("now_ms"))).mappings().one_or_none()
            of_log = {row.name: json.loads(row.value) for row in connection.execute(_PROPERTIES)}
        if row is None:
            return Followed()
        # Both properties name the event that they refer to. If it is not the row's event, they are ignored: an older
        # release, which does not know the properties, has moved the cursor since.
        marked, mark = of_log.get(LAST_EVENT, (None, None))
        after, unread = of_log.get(UNREAD, (None, 0))
        return Followed(
            row["metastore_id"], row["event_id"], row["newest_id"], row["source"], row["looked_at_ms"],
            row["compared_at_ms"], row["error"], row["holder"], row["held_until_ms"] - row["now_ms"], row["now_ms"],
            mark if marked == row["event_id"] else None, unread if after == row["event_id"] else 0,
        )  # fmt: skip

    def hold(self, holder: str, lease_ms: int) -> bool:
        """Acquire or renew the follower's lease for ``holder``; return whether it has the lease.

        It gets the lease if no other process has one, if the other process's lease is over, or if that process has
        ended.
        """
        self._make_row()
        state = self.load()
        if state.holder == holder and state.held_for_ms > lease_ms * _FRESH:
            return True
        before = state.holder
        # A process on this host that has ended cannot renew its lease, so do not wait until the lease is over.
        free = before if before is not None and is_gone(before) else ""
        f = followed_metastore.c

        def work(connection: sa.Connection) -> bool:
            now = NOW_MS
            # A lease is shorter than an hour: a longer one comes from a clock that was wrong.
            over = sa.or_(f.held_until_ms <= now, f.held_until_ms > now + FAR_MS)
            mine = sa.or_(f.holder.is_(None), f.holder.in_([holder, free]), over)
            taken = sa.update(followed_metastore).where(mine).values(holder=holder, held_until_ms=now + lease_ms)
            return connection.execute(taken).rowcount == 1

        return self._database.write(work, durable=False)

    def release(self, holder: str) -> None:
        """Release the lease of ``holder``, if it has one."""
        mine = followed_metastore.c.holder == holder
        freed = sa.update(followed_metastore).where(mine).values(holder=None, held_until_ms=0)
        self._database.write(lambda connection: connection.execute(freed))

    def advance(self, holder: str, progress: Progress) -> bool:
        """Store the result of a run; return False, and store nothing, if another process has the lease now."""

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
        """Record the reason of a failed run, unless another process has the lease now.

        ``unread`` is the event after which the log could not be read, and the number of consecutive failures; None for
        another kind of failure.
        """
        mine = sa.update(followed_metastore).where(followed_metastore.c.holder == holder)
        text = ascii_safe(error)[:_ERROR_LENGTH]

        def work(connection: sa.Connection) -> None:
            if connection.execute(mine.values(error=text)).rowcount == 1 and unread is not None:
                properties.replace_in(connection, {UNREAD: json.dumps(unread)})

        self._database.write(work, durable=False)

    def suspects(self) -> list[KeptSuspect]:
        """Return the tables that could not be synchronized, and the refused tables, sorted by name."""
        d = followed_suspects.c
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(followed_suspects, NOW_MS.label("now_ms")).order_by(d.table_name))
            return [
                KeptSuspect(
                    row.table_name, row.suspect, row.error, row.attempts, row.since_ms,
                    row.suspect is not None and row.next_attempt_at_ms <= row.now_ms,
                )
                for row in rows
            ]  # fmt: skip

    def seen(self, table_id: int) -> Seen | None:
        """Return the state at the last comparison of a table with the metastore; None if it was never compared."""
        row_of = sa.select(followed_tables).where(followed_tables.c.table_id == table_id)
        with self._database.reading() as connection:
            row = connection.execute(row_of).one_or_none()
        if row is None:
            return None
        missing = None if row.missing is None else frozenset(json.loads(row.missing))
        return Seen(row.version, missing, row.definition)

    def note_seen(self, table_id: int, seen: Seen) -> None:
        """Record the state of a table and the metastore at a comparison, in place of the previous one."""
        missing = None if seen.missing is None else json.dumps(sorted(seen.missing))
        row = {"table_id": table_id, "version": seen.version, "missing": missing, "definition": seen.definition}

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(followed_tables).where(followed_tables.c.table_id == table_id))
            connection.execute(sa.insert(followed_tables), row)

        self._database.write(work, durable=False)

    def forget_seen(self) -> None:
        """Forget the states of all comparisons: they do not apply to another metastore, or a restored one."""
        self._database.write(lambda connection: connection.execute(sa.delete(followed_tables)))

    def published_statistics(self, table: Table, names: Sequence[str]) -> PublishedStatistics:
        """Return the statistics (files, bytes, time in seconds) that were published at each change of some partitions.

        ``names`` are the partitions, in any spelling; the result is keyed by their values, without expired versions.
        Versions that were imported from the metastore are left out: they were not delivered to it, and an event of Hive
        in the same second may have the statistics from before the change, as the event of a LOAD DATA of Hive 4 does.
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
        """Return the commit time, in seconds since the epoch, of a table's oldest recorded version; 0 without one."""
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
            # Not a failure: another process inserted the row at the same time, and its row serves this process too.
            if error.__cause__ is None or not is_duplicate(error.__cause__):
                raise

    def _keep(self, connection: sa.Connection, progress: Progress) -> None:
        d, now = followed_suspects.c, now_ms(connection)
        since: dict[str, int] = {}
        for name in {*progress.settled, *(kept.table for kept, _ in progress.kept)}:
            mine = d.name_hash == name_hash(name)
            found = connection.execute(sa.select(d.since_ms).where(mine)).scalar()
            if found is not None:
                since[name] = found
                connection.execute(sa.delete(followed_suspects).where(mine))
        rows = [
            {
                "name_hash": name_hash(kept.table), "table_name": kept.table, "suspect": kept.suspect,
                "attempts": kept.attempts, "next_attempt_at_ms": now + pause_ms,
                "since_ms": since.get(kept.table, now), "error": ascii_safe(kept.error)[:_ERROR_LENGTH],
            }
            for kept, pause_ms in progress.kept
        ]  # fmt: skip
        if rows:
            connection.execute(sa.insert(followed_suspects), rows)
