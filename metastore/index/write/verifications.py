"""When partitions were last compared with the store: what a bound on staleness is held against.

A repair of the whole table leaves one row, whatever it has found; what looks at single partitions leaves one for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import ALIVE, partitions, table_versions, tables
from catalog_ext.metastore.index.database.schema import verifications as rows_
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

_WHOLE = ""
_AT_ONCE = 500
REPAIR = "repair"
"""What the history calls a version that a repair has made."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A comparison of a partition with the store.

    Attributes:
        at_ms: When it began, by the database's clock: what the store has got since it may have missed.
        version: The table's version that has what it found.
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
        """Return the last comparison of a partition, by itself or with all others."""
        own = self.own.get(name_hash(name)) if self.own else None
        if own is None or self.whole is None:
            return own or self.whole
        return max(own, self.whole, key=lambda each: each.at_ms)

    def is_later(self, name: str, at_ms: int) -> bool:
        """Return whether a comparison of a partition began after a time."""
        last = self.of(name)
        return last is not None and last.at_ms > at_ms


class Verifications:
    """When partitions were compared with the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            # Two that note the same partitions come one after the other.
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
            self._database.write(lambda connection: connection.execute(sa.delete(rows_).where(old)))

    def first_repairs_after(self, table: Table, names: Sequence[str] | None) -> dict[str, int]:
        """Return which partitions a repair was the first to change after the table's version, and the version it made.

        At that version such a partition is as the table's version has it, and as the store had it besides: no commit
        to it is in between.
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
