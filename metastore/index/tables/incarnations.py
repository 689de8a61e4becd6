"""The properties of an index, and its incarnation: after a restore from a backup, no version number is used twice.

The index has a counter that rises before files are deleted, and from time to time. A copy of the counter is on the
store (``IndexGuard``), where restoring a backup of the index does not reset it. The command ``catalog-ext restored``
begins a new incarnation, whose version numbers are above those of all earlier incarnations.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexDatabaseError, IndexRestoredError, TableNotFoundError
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import dropped_tables, index_properties, table_versions, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.metastore.index.database.database import IndexGuard


class Properties(IndexPart):
    """Reads and writes the properties of an index, which are texts by name, such as its counter."""

    def load(self) -> dict[str, str]:
        """Return all properties by name."""
        with self._database.reading() as connection:
            return {row.name: row.value for row in connection.execute(sa.select(index_properties))}

    def add_missing(self, values: Mapping[str, str]) -> dict[str, str]:
        """Add the properties that are missing, and return all: if two processes add the same one, the first wins."""
        there = self.load()
        for name, value in values.items():
            if name in there:
                continue
            added = sa.insert(index_properties).values(name=name, value=value)
            try:
                self._database.write(lambda connection, row=added: connection.execute(row))  # type: ignore[misc]
            except IndexDatabaseError as error:
                if not isinstance(error.__cause__, sa.exc.DBAPIError) or not is_duplicate(error.__cause__):
                    raise
        return self.load()

    def replace(self, values: Mapping[str, str], removed: Iterable[str] = ()) -> None:
        """Set properties of the index and remove other properties, in one transaction."""
        self._database.write(lambda connection: replace_in(connection, values, removed))


def replace_in(connection: sa.Connection, values: Mapping[str, str], removed: Iterable[str] = ()) -> None:
    """Set properties of the index and remove other properties, within a transaction of the caller."""
    names = {*values, *removed}
    connection.execute(sa.delete(index_properties).where(index_properties.c.name.in_(names)))
    rows = [{"name": name, "value": value} for name, value in values.items()]
    if rows:
        connection.execute(sa.insert(index_properties), rows)


INCARNATION = "index.incarnation"
COUNTER = "index.counter"

COUNTER_MARK = "index.counter.mark"
"""The property with a random text that changes with the counter: two copies of an index that raise the counter to the
same number have different marks."""

RESTORING = "index.restoring"
"""The property of an index on which ``catalog-ext restored`` has begun but not ended."""

VERSIONS = 1_000_000_000
"""The number of versions of a table in one incarnation: incarnation n begins at version n times this number."""


@dataclass(frozen=True, slots=True, order=True)
class CounterPosition:
    """The age of an index's state: of two positions of one index, the greater one is the later.

    Attributes:
        incarnation: How often the index was restored; 0 for an index that was never restored.
        counter: The index's counter, which rises before files are deleted. It never falls, also not by a restore.
    """

    incarnation: int = 0
    counter: int = 0


def position_of(recorded: Mapping[str, str]) -> CounterPosition:
    """Return the incarnation and the counter that are recorded in the properties of an index."""
    return CounterPosition(int(recorded.get(INCARNATION, "0")), int(recorded.get(COUNTER, "0")))


class Incarnations(IndexPart):
    """Reads and raises the counter of an index, and the number of its restores (incarnation)."""

    def watch(self, guard: IndexGuard) -> None:
        """Set the guard that checks, before each change and each deletion of files, whether the index was restored."""
        self._database.guard = guard

    @property
    def behind(self) -> IndexRestoredError | None:
        """The error that changes raise because the index was restored; None if it is current, as far as known."""
        return None if self._database.guard is None else self._database.guard.behind

    def require_current(self) -> None:
        """Raise if the index was restored from an older copy.

        Raises:
            IndexRestoredError: The index was restored from an older copy.
        """
        if self._database.guard is not None:
            self._database.guard.require_current()

    def before_deleting(self) -> None:
        """Raise the counter in the index and on the store, before files are deleted or moved.

        If an older copy of the index is restored later, its lower counter shows that such files may be gone.

        Raises:
            IndexRestoredError: The index was restored from an older copy.
            StorageError: The store does not answer.
        """
        if self._database.guard is not None:
            self._database.guard.advance()

    def position(self) -> CounterPosition:
        """Return the incarnation and the counter."""
        return position_of(Properties(self._database).load())

    def raise_counter(self) -> None:
        """Raise the index's counter by one; the new value is durable when this returns."""
        if not self._database.write(_raise):
            Properties(self._database).add_missing({COUNTER: "0", COUNTER_MARK: ""})
            self._database.write(_raise)

    def newest_table_number(self) -> int:
        """Return the greatest table number in use, including dropped tables whose rows are not removed yet."""
        with self._database.reading() as connection:
            return max(int(number) for number in connection.execute(_NUMBERS).scalars())

    def require_version(self, table_id: int, version: int) -> None:
        """Check that a version of a table was made in the history of this index, and not lost by a restore.

        Raises:
            TableNotFoundError: The table is gone.
            IndexRestoredError: The version is newer than the table, or was made by an incarnation that a restore
                replaced.
        """
        asked = {"table_id": table_id, "version": version}
        with self._database.reading() as connection:
            row: Any = connection.execute(_VERSION, asked).mappings().one_or_none()
        if row is None:
            raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
        require_given(table_id, version, row)


def _raise(connection: sa.Connection) -> bool:
    """Raise the index's counter and change its mark; return False if the properties do not exist yet."""
    p = index_properties.c
    asked = sa.select(p.name, p.value).where(p.name.in_([COUNTER, COUNTER_MARK])).with_for_update()
    there = {row.name: row.value for row in connection.execute(asked)}
    if len(there) < 2:
        return False
    for name, value in ((COUNTER, str(int(there[COUNTER]) + 1)), (COUNTER_MARK, new_mark())):
        connection.execute(sa.update(index_properties).where(p.name == name).values(value=value))
    return True


def new_mark() -> str:
    """Return a random text that no other copy of the index uses as the mark of its counter."""
    return secrets.token_hex(8)


_NUMBERS = sa.union_all(
    sa.select(sa.func.coalesce(sa.func.max(tables.c.table_id), 0)),
    sa.select(sa.func.coalesce(sa.func.max(dropped_tables.c.table_id), 0)),
)


def require_given(table_id: int, version: int, row: Mapping[str, int]) -> None:
    """Check that the index made a version; ``row`` has ``version``, ``oldest_version`` and ``known`` of its table.

    Raises:
        IndexRestoredError: The version is newer than the table, or was made by an incarnation that a restore replaced.
    """
    newest = row["version"]
    of_now = version // VERSIONS == newest // VERSIONS
    if version <= newest and (of_now or row["known"] or version < row["oldest_version"]):
        return
    raise IndexRestoredError(
        f"Version {version} of the table with the id {table_id} is not one of this index, where the table is at "
        f"version {newest}: the index was restored to an earlier state and has lost later versions. "
        "Read the table again; start a stream with a new checkpoint. Its rows since then may be in both.",
        {"table_id": str(table_id), "version": str(version), "newest": str(newest)},
    )


KNOWN = sa.exists().where(
    table_versions.c.table_id == sa.bindparam("table_id"), table_versions.c.version == sa.bindparam("version")
)
"""The condition that the history has the requested version."""

_VERSION = sa.select(tables.c.version, tables.c.oldest_version, sa.case((KNOWN, 1), else_=0).label("known")).where(
    tables.c.table_id == sa.bindparam("table_id")
)
