"""The metadata tables ``repairs`` and ``skipped``, and the time when partitions were last compared with the store.

A comparison (verification) of the whole table is recorded in one row, whatever its result; a comparison of single
partitions in one row for each.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import NOW_MS, now_ms
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import locked_row
from catalog_ext.metastore.index.database.schema import partitions, repairs, skipped_paths, table_versions, tables
from catalog_ext.metastore.index.database.schema import verifications as rows_
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.model.tables import Table

_WHOLE = ""
_AT_ONCE = 500
REPAIR = "repair"
"""The operation in the history for a version that a repair made."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A comparison of a partition with the store.

    Attributes:
        at_ms: The start of the comparison, by the database's clock. Files that were written later may be missing in it.
        version: The table's version that contains the result.
    """

    at_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class LastVerified:
    """The last comparisons of a table's partitions with the store.

    Attributes:
        now_ms: The database's time.
        whole: The last comparison of the whole table; None if there was no such comparison.
        own: The comparisons of single partitions, by the hash of the name.
    """

    now_ms: int
    whole: Verified | None
    own: Mapping[str, Verified]

    def of(self, name: str) -> Verified | None:
        """Return the last comparison of a partition, alone or with the whole table; None if it was never compared."""
        own = self.own.get(name_hash(name)) if self.own else None
        if own is None or self.whole is None:
            return own or self.whole
        return max(own, self.whole, key=lambda each: each.at_ms)

    def is_later(self, name: str, at_ms: int) -> bool:
        """Return whether a comparison of a partition began after a time."""
        last = self.of(name)
        return last is not None and last.at_ms > at_ms


class Verifications(IndexPart):
    """Reads and writes the times of comparisons of partitions with the store."""

    def verified(self, table: Table, names: Sequence[str] | None) -> LastVerified:
        """Return when the named partitions, and the whole table, were last compared with the store."""
        found: dict[str, Verified] = {}
        with self._database.reading() as connection:
            now = now_ms(connection)
            # Few tables have comparisons of single partitions. If this table has none, a large repair need not look up
            # each name.
            of_one = sa.select(rows_.c.name_hash).where(rows_.c.table_id == table.table_id, rows_.c.name_hash > _WHOLE)
            if names and len(names) > _AT_ONCE and connection.execute(of_one.limit(1)).first() is None:
                names = None
            for some in batched([_WHOLE, *(name_hash(name) for name in names or ())], _AT_ONCE):
                for row in connection.execute(sa.select(rows_).where(_are(table.table_id, some))):
                    found[row.name_hash] = Verified(row.verified_at_ms, row.version)
        return LastVerified(now, found.pop(_WHOLE, None), found)

    def note(self, table: Table, verified: Verified, names: Iterable[str] | None) -> None:
        """Record that partitions were compared with the store; ``names`` None stands for the whole table.

        Nothing is recorded if the table no longer exists.
        """
        hashes = [_WHOLE] if names is None else [name_hash(name) for name in dict.fromkeys(names)]
        values = {"table_id": table.table_id, "verified_at_ms": verified.at_ms, "version": verified.version}

        def work(connection: sa.Connection) -> None:
            # The lock serializes processes that record the same partitions: both would insert the same row.
            lock = sa.select(tables.c.table_id).where(tables.c.table_id == table.table_id).with_for_update()
            if connection.execute(lock).scalar() is None:
                return
            if names is None:
                before = sa.and_(rows_.c.table_id == table.table_id, rows_.c.verified_at_ms <= verified.at_ms)
                connection.execute(sa.delete(rows_).where(before))
            for some in batched(hashes, _AT_ONCE):
                connection.execute(sa.delete(rows_).where(_are(table.table_id, some)))
                connection.execute(sa.insert(rows_), [{**values, "name_hash": each} for each in some])

        if hashes:
            # Not durable: if the record is lost in a power failure, the partition is only listed once more.
            self._database.write(work, durable=False)

    def expire(self, table_id: int, before_ms: int) -> None:
        """Forget comparisons that began before a time (milliseconds since the epoch, UTC)."""
        old = sa.and_(rows_.c.table_id == table_id, rows_.c.verified_at_ms < before_ms)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(rows_.c.name_hash).where(old).limit(1)).first()
        if found is not None:
            self._database.change(sa.delete(rows_).where(old))

    def first_repairs_after(self, table: Table, names: Sequence[str] | None) -> dict[str, int]:
        """Return the partitions whose first change after the table's version was made by a repair, with that version.

        At the returned version such a partition has the state of the table's version plus the repair's findings: no
        commit to it is in between.
        """
        p = partitions.c
        later = sa.or_(p.begin_version > table.version, sa.and_(p.end_version > table.version, p.end_version < ALIVE))
        of = sa.select(p.name, p.begin_version, p.end_version).where(p.table_id == table.table_id, later)
        asked = [of] if names is None else [
            of.where(p.name_hash.in_([name_hash(name) for name in some])) for some in batched(names, _AT_ONCE)
        ]  # fmt: skip
        first: dict[str, int] = {}
        repairs: set[int] = set()
        with self._database.reading() as connection:
            for statement in asked:
                for row in connection.execute(statement):
                    version = row.begin_version if row.begin_version > table.version else row.end_version
                    first[row.name] = min(version, first.get(row.name, version))
            t = table_versions.c
            for some in batched(sorted(set(first.values())), _AT_ONCE):
                made = sa.select(t.version).where(
                    t.table_id == table.table_id, t.version.in_(some), t.operation == REPAIR, t.transaction_id.is_(None)
                )
                repairs |= set(connection.execute(made).scalars())
        return {name: version for name, version in first.items() if version in repairs}


def _are(table_id: int, hashes: Iterable[str]) -> sa.ColumnElement[bool]:
    return sa.and_(rows_.c.table_id == table_id, rows_.c.name_hash.in_(list(hashes)))


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
"""The metadata table ``repairs``: one row per repair."""

SKIPPED_SCHEMA = pa.schema([
    pa.field("path", pa.string(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("files", _COUNT),
    pa.field("bytes", _COUNT),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("skipped_at", _TIME, nullable=False),
])  # fmt: skip
"""The metadata table ``skipped``: one row per path that the last repair skipped."""

MOST_SKIPPED = 1000
"""The most rows of ``skipped`` that are stored for a table; ``repairs`` has the full number."""


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A path that a repair skipped.

    Attributes:
        path: The path, relative to the table's location.
        partition_name: The partition that the path belongs to; ``''`` if it belongs to no partition.
        files: The number of files at or below the path; None if the directory was not listed.
        bytes: The total size of these files in bytes; None if ``files`` is None.
        reason: The reason why the repair skipped the path, as text.
    """

    path: str
    partition_name: str
    files: int | None
    bytes: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """The record of one repair that was not a dry run.

    Attributes:
        table_id: The table's number.
        duration_ms: The duration in milliseconds.
        mode: ``add``, ``drop`` or ``sync``.
        limited_to: The user's filter of partitions, or None.
        strict: 1 if the repair had to fail instead of skipping paths, otherwise 0.
        owner: The process that ran the repair, for messages.
        added: The number of added partitions; likewise ``dropped`` and ``changed``.
        skipped: The number of skipped paths.
        version_before: The table's version at the start; ``version_after`` at the end.
        error: The reason why the repair stopped early, or None.
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


class Repairs(IndexPart):
    """Reads and writes the records of repairs."""

    def add(self, record: RepairRecord, skipped: Sequence[SkippedPath] | None = None) -> None:
        """Add the record of a repair that has just ended; the end time is taken from the database's clock.

        Args:
            record: The record of the repair.
            skipped: The paths that it skipped: the first ``MOST_SKIPPED`` replace those of the previous repair. None
                keeps the previous ones.
        """

        def write(connection: sa.Connection) -> None:
            connection.execute(_ADD, asdict(record))
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
        select = (
            sa.select(
                r.began_at_ms.label("began_at"), (r.ended_at_ms - r.began_at_ms).label("duration_ms"), r.mode,
                r.limited_to.label("where"), (r.strict == 1).label("strict"), r.added, r.dropped, r.changed, r.skipped,
                r.version_before, r.version_after, r.owner, r.error, r.repair_id,
            )
            .where(r.table_id == table.table_id)
            .order_by(r.repair_id.desc())
            .limit(_PAGE)
        )  # fmt: skip

        def pages() -> Iterator[pa.RecordBatch]:
            page_of = select
            while True:
                with self._database.reading() as connection:
                    page = connection.execute(page_of).mappings().all()
                if not page:
                    return
                yield pa.RecordBatch.from_pylist([dict(row) for row in page], schema=REPAIRS_SCHEMA)
                page_of = select.where(r.repair_id < page[-1]["repair_id"])

        return pa.RecordBatchReader.from_batches(REPAIRS_SCHEMA, pages())

    def expire(self, table_id: int, before_ms: int, *, dry_run: bool = False) -> int:
        """Remove records of repairs that ended before a time (milliseconds, UTC), and comparisons that began before it.

        Returns the number of repairs; with ``dry_run`` they are only counted.
        """
        if not dry_run:
            Verifications(self._database).expire(table_id, before_ms)
        old = sa.and_(repairs.c.table_id == table_id, repairs.c.ended_at_ms < before_ms)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(sa.func.count()).where(old)).scalar() or 0
        if dry_run or not found:
            return found
        return self._database.change(sa.delete(repairs).where(old))


def _replace_skipped(connection: sa.Connection, table_id: int, skipped: Sequence[SkippedPath]) -> None:
    # Lock the table's row: two repairs that end at the same time would both insert rows with the same positions.
    table = locked_row(connection, table_id)
    connection.execute(sa.delete(skipped_paths).where(skipped_paths.c.table_id == table_id))
    if table is None or not skipped:
        return
    rows = [
        {"table_id": table_id, "position": position, "skipped_at_ms": table.now_ms, **asdict(path)}
        for position, path in enumerate(skipped)
    ]
    connection.execute(sa.insert(skipped_paths), rows)


_BEGAN = NOW_MS - sa.bindparam("duration_ms", type_=sa.BigInteger())
_ADD = sa.insert(repairs).values(began_at_ms=_BEGAN, ended_at_ms=NOW_MS)
