"""Dropped tables whose directories must still be deleted; until then no other table may use these directories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.partition_plans import DataDeletion
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import dropped_tables, tables, transactions
from catalog_ext.metastore.index.read.spellings import PlaceKeys, other_spellings, scheme_with_names
from catalog_ext.metastore.index.write.transaction_rows import FORGOTTEN_KEPT_MS, insert_deletion
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.runtime.local_paths import both_spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier


_AT_ONCE = 500
_DROP_TABLE = "DROP TABLE"


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A dropped table whose directory must still be deleted.

    Attributes:
        table_id: The table's number, which is never used again.
        name: The table's name, as ``namespace.name``.
        location: The table's directory.
        dropped_at_ms: The time of the drop, in milliseconds since the epoch, UTC.
        directory: The identity of a local directory (``local_paths.directory_identity``); None if it is not known.
    """

    table_id: int
    name: str
    location: str
    dropped_at_ms: int
    directory: str | None = None


def overlaps(column: sa.ColumnElement[Any], asked: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition that the column's location equals, lies in or contains one of the given locations.

    ``asked`` is the result of ``overlap`` for the given locations, or for other locations if it has as many keys.
    Symbolic links to the locations are taken into account.
    """
    return sa.or_(*inside(column, asked))


def inside(column: sa.ColumnElement[Any], asked: Collection[str]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that ``overlaps`` joins by OR, separately: databases use no index of a column for an OR."""
    ranges = [
        sa.and_(column >= sa.bindparam(f"from_{i}"), column < sa.bindparam(f"to_{i}")) for i in range(len(asked) // 2)
    ]
    parts = [column.in_(sa.bindparam("places", expanding=True)), *ranges]
    return [sa.and_(column.is_not(None), part) for part in parts]


def overlap(*locations: str) -> dict[str, Any]:
    """Return the parameter values of ``overlaps`` for some locations (at least one)."""
    places = sorted({place.rstrip("/") for location in locations for place in both_spellings(location)})
    asked: dict[str, Any] = {
        "places": sorted({*places, *(above for place in places for above in directories_around(place))})
    }
    for i, place in enumerate(places):
        # "0" is the character after "/": the range contains exactly the locations below the directory.
        asked |= {f"from_{i}": f"{place}/", f"to_{i}": f"{place}0"}
    return asked


def directories_around(location: str) -> list[str]:
    """Return the ancestor directories of a location, each with and without a trailing slash."""
    parts = location.rstrip("/").split("/")
    around = ["/".join(parts[:i]) for i in range(1, len(parts))]
    return [*around, *(f"{a}/" for a in around)]


class DroppedTables(IndexPart):
    """Dropped tables whose directories are not deleted yet."""

    def undeleted(self, location: str | None = None) -> list[DroppedTable]:
        """Return the dropped tables whose directories must still be deleted, oldest first.

        With a location, only tables whose directory equals it, lies inside it or contains it.
        """
        with self._database.reading() as connection:
            return _undeleted(connection, location)

    def while_undeleted(self, table_id: int, work: Callable[[], bool]) -> bool | None:
        """Run ``work`` under the lock of the dropped table's row and return its result; None if the row is gone.

        ``work`` must be short, and is called again if the transaction is retried.
        """
        d = dropped_tables.c
        held = sa.select(d.table_id).where(d.table_id == table_id, d.location.is_not(None)).with_for_update()

        def locked(connection: sa.Connection) -> bool | None:
            return work() if connection.execute(held).scalar() is not None else None

        return self._database.write(locked)

    def note_deleted(self, dropped: DroppedTable, owner: str) -> None:
        """Record that a dropped table's directory is deleted, so that other tables may use it.

        This adds a finished transaction of the deletion: a process that listed files of the directory earlier must not
        register them. Such transactions older than 30 days are removed, at most 500 at a time.
        """
        d = dropped_tables.c
        mine = (d.table_id == dropped.table_id, d.location.is_not(None))
        gone = sa.update(dropped_tables).where(*mine).values(name=None, location=None, directory=None)

        def work(connection: sa.Connection) -> None:
            if connection.execute(gone).rowcount:
                now = now_ms(connection)
                insert_deletion(
                    connection, dropped.table_id, dropped.name, dropped.location, DataDeletion.INSIDE,
                    operation=_DROP_TABLE, state=State.FINISHED, owner=owner, staging="", version=0, now_ms=now,
                )  # fmt: skip
                _forget_old_drops(connection, now - FORGOTTEN_KEPT_MS)

        self._database.write(work)


def _forget_old_drops(connection: sa.Connection, before_ms: int) -> None:
    """Remove old finished transactions of DROP TABLE. Vacuum works on existing tables, so it would not remove them."""
    t = transactions.c
    old = (t.state == str(State.FINISHED), t.expires_at_ms < before_ms, t.operation == _DROP_TABLE)
    # Two statements, because MariaDB does not allow LIMIT in a subquery of DELETE.
    found = connection.execute(sa.select(t.transaction_id).where(*old).limit(_AT_ONCE)).scalars().all()
    if found:
        connection.execute(sa.delete(transactions).where(t.transaction_id.in_(found)))


def any_undeleted(connection: sa.Connection) -> bool:
    """Return whether a directory of any dropped table must still be deleted, which is rare."""
    return _ANY_UNDELETED.scalar(connection) is not None


_ANY_UNDELETED = Prepared(sa.select(dropped_tables.c.table_id).where(dropped_tables.c.location.is_not(None)).limit(1))


def being_deleted(connection: sa.Connection, directories: Collection[str]) -> dict[str, DroppedTable]:
    """Return the directories that lie in a dropped table's directory, if it must still be deleted, with that table.

    The caller locks the tables at these places (``hold_tables``), so a DROP of one of these tables happens before or
    after the caller's transaction, not during it.
    """
    dropped = _undeleted(connection, None) if directories and any_undeleted(connection) else []
    return {place: one for place in directories for one in dropped if lies_inside(place, one.location)}


def hold_tables_around(connection: sa.Connection, locations: Collection[str]) -> None:
    """Lock the tables whose directories contain the locations, until the transaction ends.

    A concurrent DROP TABLE of such a table either committed before and has left a row in ``dropped_tables``, or waits
    and then sees what this transaction has registered in the directory.
    """
    spelled = {place for location in locations for place in both_spellings(location)}
    if connection.dialect.name != "sqlite":
        # Look for other names of the directories only where locks are needed: SQLite has one writer at a time.
        spelled.update(*other_spellings(connection, spelled).values())
    places = sorted({place for location in spelled for place in (location, *directories_around(location))})
    for some in batched(places, _AT_ONCE):
        hold_tables(connection, _AT_PLACES.scalars(connection, {"places": list(some)}))


def hold_tables(connection: sa.Connection, numbers: Collection[int]) -> None:
    """Take shared locks on tables' rows: until the transaction ends, the tables cannot be dropped or committed to."""
    # Lock by number. In a query by location, MariaDB would wait for the locks of all rows that it scans.
    if numbers:
        _HOLD.rows(connection, {"numbers": sorted(numbers)})


_AT_PLACES = Prepared(sa.select(tables.c.table_id).where(tables.c.location.in_(sa.bindparam("places", expanding=True))))
_HOLD = Prepared(
    sa.select(tables.c.table_id)
    .where(tables.c.table_id.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(tables.c.table_id)
    .with_for_update(read=True)
)


def check_location_free(
    connection: sa.Connection, identifier: TableIdentifier, location: str, partition: str | None = None
) -> None:
    """Check that no dropped table's directory, if still to be deleted, is at, in or around a location.

    ``partition`` names the partition that is to lie at the location, and then the caller has called
    ``hold_tables_around``. With None the location is for the table itself, and this function takes the locks.

    Raises:
        ConflictError: A dropped table's directory overlaps the location and must still be deleted.
    """
    if location and partition is None:
        hold_tables_around(connection, [location])
    there = _undeleted(connection, location) if location else []
    if there:
        what = f"Table {identifier}" if partition is None else f"Partition {partition[:200]!r} of table {identifier}"
        raise ConflictError(
            f"{what} cannot lie at {location} yet: the files of table "
            f"{there[0].name}, which was dropped, are being deleted at {there[0].location}. Try again, or choose "
            "another location; if the DROP TABLE has died, `catalog-ext recover --older-than 0s` deletes the rest.",
            {"table": str(identifier), "location": location},
        )


def lies_inside(place: str, directory: str) -> bool:
    """Return whether a place is the directory or lies in it, also if the directory has other names (links)."""
    scheme = scheme_with_names(directory)
    if contains(directory, place) or scheme is None or not place.startswith(scheme):
        return contains(directory, place)
    keys = PlaceKeys()
    return contains(keys.of(directory), keys.of(place))


def contains(directory: str, other: str) -> bool:
    """Return whether a directory equals or contains another one; both are canonical URIs."""
    return f"{other}/".startswith(f"{directory}/")


def _undeleted(connection: sa.Connection, location: str | None) -> list[DroppedTable]:
    scheme = None if location is None else scheme_with_names(location)
    asked = {} if location is None or scheme is not None else overlap(location)
    found = [DroppedTable(**row) for row in _undeleted_there(tuple(asked)).rows(connection, asked)]
    if location is None or scheme is None or not found:
        return found
    # Compare with all undeleted directories here, and not in SQL: the database does not know which names lead to the
    # same directory. This is cheap, because few dropped tables are still undeleted.
    keys = PlaceKeys()
    near = [one for one in found if one.location.startswith(scheme)]
    return [
        one
        for one in near
        if _overlap(location.rstrip("/"), one.location.rstrip("/"))
        or _overlap(keys.of(location), keys.of(one.location))
    ]


def _overlap(one: str, other: str) -> bool:
    return contains(one, other) or contains(other, one)


@cache
def _undeleted_there(asked: tuple[str, ...]) -> Prepared:
    d = dropped_tables.c
    statement = sa.select(d.table_id, d.name, d.location, d.dropped_at_ms, d.directory).where(d.location.is_not(None))
    if asked:
        statement = statement.where(overlaps(d.location, dict.fromkeys(asked)))
    return Prepared(statement.order_by(d.dropped_at_ms, d.table_id))
