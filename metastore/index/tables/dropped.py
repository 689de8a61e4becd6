"""Dropped tables whose directories must still be deleted: until then no other table may use the directories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import DataDeletion
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
        table_id: Its number, which no other table gets.
        name: ``namespace.name``.
        location: The directory.
        dropped_at_ms: The time of the drop, in milliseconds since the epoch, UTC.
        directory: The identity of a local directory (``local_paths.directory_identity``); None if it is not known.
    """

    table_id: int
    name: str
    location: str
    dropped_at_ms: int
    directory: str | None = None


def overlaps(column: sa.ColumnElement[Any], asked: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a location equals, lies in or contains one of the given ones, or one of their links.

    ``asked`` is the result of ``overlap`` for the given locations, or for others with the same number of keys.
    """
    return sa.or_(*inside(column, asked))


def inside(column: sa.ColumnElement[Any], asked: Collection[str]) -> list[sa.ColumnElement[bool]]:
    """Return the parts of ``overlaps``, each a condition by itself: databases use no index of a column for an OR."""
    ranges = [
        sa.and_(column >= sa.bindparam(f"from_{i}"), column < sa.bindparam(f"to_{i}")) for i in range(len(asked) // 2)
    ]
    parts = [column.in_(sa.bindparam("places", expanding=True)), *ranges]
    return [sa.and_(column.is_not(None), part) for part in parts]


def overlap(*locations: str) -> dict[str, Any]:
    """Return the values of the parameters of ``overlaps``, for one of the locations at least."""
    places = sorted({place.rstrip("/") for location in locations for place in both_spellings(location)})
    asked: dict[str, Any] = {
        "places": sorted({*places, *(above for place in places for above in directories_around(place))})
    }
    for i, place in enumerate(places):
        # "0" is the character after "/".
        asked |= {f"from_{i}": f"{place}/", f"to_{i}": f"{place}0"}
    return asked


def directories_around(location: str) -> list[str]:
    """Return the directories that a location lies in."""
    parts = location.rstrip("/").split("/")
    around = ["/".join(parts[:i]) for i in range(1, len(parts))]
    return [*around, *(f"{a}/" for a in around)]


class DroppedTables(IndexPart):
    """Dropped tables whose directories are not deleted yet."""

    def undeleted(self, location: str | None = None) -> list[DroppedTable]:
        """Return the dropped tables whose directories must still be deleted, oldest first.

        With a location, only those whose directory equals it, lies inside it or contains it.
        """
        with self._database.reading() as connection:
            return _undeleted(connection, location)

    def while_undeleted(self, table_id: int, work: Callable[[], bool]) -> bool | None:
        """Run ``work`` under the lock of the dropped table's row and return its result; None if the row is gone.

        ``work`` is short, and may be called again.
        """
        d = dropped_tables.c
        held = sa.select(d.table_id).where(d.table_id == table_id, d.location.is_not(None)).with_for_update()

        def locked(connection: sa.Connection) -> bool | None:
            return work() if connection.execute(held).scalar() is not None else None

        return self._database.write(locked)

    def note_deleted(self, dropped: DroppedTable, owner: str) -> None:
        """Give a dropped table's directory free, once nothing is in it.

        A finished transaction stays for registrations that listed files of the directory before. Those of tables that
        were dropped more than 30 days ago are removed, at most 500 at a time.
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
    """Remove finished transactions of DROP TABLE. No vacuum of a table does, since their tables are gone."""
    t = transactions.c
    old = (t.state == str(State.FINISHED), t.expires_at_ms < before_ms, t.operation == _DROP_TABLE)
    # MariaDB takes no LIMIT in a subquery of DELETE.
    found = connection.execute(sa.select(t.transaction_id).where(*old).limit(_AT_ONCE)).scalars().all()
    if found:
        connection.execute(sa.delete(transactions).where(t.transaction_id.in_(found)))


def any_undeleted(connection: sa.Connection) -> bool:
    """Return whether any directory of a dropped table is still to be deleted: hardly ever."""
    return _ANY_UNDELETED.scalar(connection) is not None


_ANY_UNDELETED = Prepared(sa.select(dropped_tables.c.table_id).where(dropped_tables.c.location.is_not(None)).limit(1))


def being_deleted(connection: sa.Connection, directories: Collection[str]) -> dict[str, DroppedTable]:
    """Return the directories that lie in the directory of a dropped table which must still be deleted.

    The caller locks the tables at these places (``hold_tables``), so a DROP of one of them happens before or after it.
    """
    dropped = _undeleted(connection, None) if directories and any_undeleted(connection) else []
    return {place: one for place in directories for one in dropped if lies_inside(place, one.location)}


def hold_tables_around(connection: sa.Connection, locations: Collection[str]) -> None:
    """Lock the tables whose directories contain the locations, until the transaction ends.

    A DROP TABLE of one of them either came before and left a row in ``dropped_tables``, or sees what was put there.
    """
    spelled = {place for location in locations for place in both_spellings(location)}
    if connection.dialect.name != "sqlite":
        # SQLite lets one writer through at a time, and needs no locks.
        spelled.update(*other_spellings(connection, spelled).values())
    places = sorted({place for location in spelled for place in (location, *directories_around(location))})
    for some in batched(places, _AT_ONCE):
        hold_tables(connection, _AT_PLACES.scalars(connection, {"places": list(some)}))


def hold_tables(connection: sa.Connection, numbers: Collection[int]) -> None:
    """Take shared locks of tables' rows: until this transaction ends the tables stay, and no other commits there."""
    # By number: MariaDB would wait for every row that it looks at on its way to a location.
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
    """Return if no directory of a dropped table that is still to be deleted is the given one, or lies in or around it.

    ``partition`` names the partition of the table that is to lie there, after ``hold_tables_around``; None for the
    table.

    Raises:
        ConflictError: One is.
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
    """Return whether a place is a directory or lies in it, by any name of the directory."""
    scheme = scheme_with_names(directory)
    if contains(directory, place) or scheme is None or not place.startswith(scheme):
        return contains(directory, place)
    keys = PlaceKeys()
    return contains(keys.of(directory), keys.of(place))


def contains(directory: str, other: str) -> bool:
    """Return whether a directory is another one, or contains it, by their canonical URIs."""
    return f"{other}/".startswith(f"{directory}/")


def _undeleted(connection: sa.Connection, location: str | None) -> list[DroppedTable]:
    scheme = None if location is None else scheme_with_names(location)
    asked = {} if location is None or scheme is not None else overlap(location)
    found = [DroppedTable(**row) for row in _undeleted_there(tuple(asked)).rows(connection, asked)]
    if location is None or scheme is None or not found:
        return found
    # All of them, which are hardly ever any: a database does not know which names are of one directory.
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
