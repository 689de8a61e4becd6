"""Repairs that ran, paths that the last one skipped, and when partitions were last compared with the store.

The first two are the metadata tables ``repairs`` and ``skipped``. Of comparisons a repair of the whole table leaves one
row, whatever it has found; a comparison of single partitions leaves one for each.
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
"""What the history calls a version that a repair has made."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A comparison of a partition with the store.

    Attributes:
        at_ms: Its start, by the database's clock: it may have missed later files.
        version: The table's version that contains its result.
    """

    at_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class LastVerified:
    """When partitions were last compared with the store.

    Attributes:
        now_ms: The database's time.
        whole: The last comparison of the whole table.
        own: Those of single partitions, by the hash of the name.
    """

    now_ms: int
    whole: Verified | None
    own: Mapping[str, Verified]

    def of(self, name: str) -> Verified | None:
        """Return the last comparison of a partition, alone or within a full comparison."""
        own = self.own.get(name_hash(name)) if self.own else None
        if own is None or self.whole is None:
            return own or self.whole
        return max(own, self.whole, key=lambda each: each.at_ms)

    def is_later(self, name: str, at_ms: int) -> bool:
        """Return whether a comparison of a partition began after a time."""
        last = self.of(name)
        return last is not None and last.at_ms > at_ms


class Verifications(IndexPart):
    """When partitions were compared with the store."""

    def verified(self, table: Table, names: Sequence[str] | None) -> LastVerified:
        """Return when the named partitions, and the whole table, were last compared with the store."""
        found: dict[str, Verified] = {}
        with self._database.reading() as connection:
            now = now_ms(connection)
            # Few tables have comparisons of single partitions: a large repair then spares the look-up of each name.
            of_one = sa.select(rows_.c.name_hash).where(rows_.c.table_id == table.table_id, rows_.c.name_hash > _WHOLE)
            if names and len(names) > _AT_ONCE and connection.execute(of_one.limit(1)).first() is None:
                names = None
            for some in batched([_WHOLE, *(name_hash(name) for name in names or ())], _AT_ONCE):
                for row in connection.execute(sa.select(rows_).where(_are(table.table_id, some))):
                    found[row.name_hash] = Verified(row.verified_at_ms, row.version)
        return LastVerified(now, found.pop(_WHOLE, None), found)

    def note(self, table: Table, verified: Verified, names: Iterable[str] | None) -> None:
        """Keep that partitions were compared with the store; None for all there are.

        A table that is gone by now has nothing kept.
        """
        hashes = [_WHOLE] if names is None else [name_hash(name) for name in dict.fromkeys(names)]
        values = {"table_id": table.table_id, "verified_at_ms": verified.at_ms, "version": verified.version}

        def work(connection: sa.Connection) -> None:
            # Serialize processes that record the same partitions.
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
            # Losing it costs a listing.
            self._database.write(work, durable=False)

    def expire(self, table_id: int, before_ms: int) -> None:
        """Forget comparisons that began before a time (milliseconds since the epoch, UTC)."""
        old = sa.and_(rows_.c.table_id == table_id, rows_.c.verified_at_ms < before_ms)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(rows_.c.name_hash).where(old).limit(1)).first()
        if found is not None:
            self._database.change(sa.delete(rows_).where(old))

    def first_repairs_after(self, table: Table, names: Sequence[str] | None) -> dict[str, int]:
        """Return the partitions that a repair changed first after the table's version, with the version it made.

        At that version such a partition has the state of the table's version plus the repair's findings: no commit to
        it is in between.
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
    """The record of one repair that was not a dry run.

    Attributes:
        table_id: The table's number.
        duration_ms: The duration in milliseconds.
        mode: ``add``, ``drop`` or ``sync``.
        limited_to: The user's filter, or None.
        strict: 1 if it had to fail instead of skipping paths.
        owner: The process, for people.
        added: The number of added partitions; likewise ``dropped`` and ``changed``.
        skipped: The number of skipped paths.
        version_before: The table's version at the start; ``version_after`` at the end.
        error: The reason why it stopped, or None.
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
    """Reports of repairs."""

    def add(self, record: RepairRecord, skipped: Sequence[SkippedPath] | None = None) -> None:
        """Keep the record of a repair that has just ended; the database dates it.

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
        """Forget the repairs that ended before a time (milliseconds, UTC), and verifications before it.

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


_BEGAN = NOW_MS - sa.bindparam("duration_ms", type_=sa.BigInteger())
_ADD = sa.insert(repairs).values(began_at_ms=_BEGAN, ended_at_ms=NOW_MS)
