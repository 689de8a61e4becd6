"""Tables that were dropped and whose directories are still to be deleted: until then the directories are theirs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import DataDeletion
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    dropped_tables,
    namespaces,
    partitions,
    tables,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.read.spellings import PlaceKeys, other_spellings, scheme_with_names
from catalog_ext.metastore.index.write.deletion_transactions import deletion
from catalog_ext.metastore.index.write.transaction_rows import from_row, insert_within
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.runtime.local_paths import both_spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table


_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A dropped table whose directory is still to be deleted.

    Attributes:
        table_id: Its number, which no other table gets.
        name: ``namespace.name``.
        location: The directory.
        dropped_at_ms: When it was dropped, in milliseconds since the epoch, UTC.
        directory: The local directory that it had (``local_paths.directory_identity``); None where it is not known.
    """

    table_id: int
    name: str
    location: str
    dropped_at_ms: int
    directory: str | None = None


def overlaps(column: sa.ColumnElement[Any], asked: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a location is one of the given ones (or of their links), lies in one or around one.

    Args:
        column: Has the location.
        asked: What ``overlap`` has returned for the given ones, or for others with as many keys.
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
    asked: dict[str, Any] = {"places": sorted({*places, *(above for place in places for above in _around(place))})}
    for i, place in enumerate(places):
        # "0" is the character after "/".
        asked |= {f"from_{i}": f"{place}/", f"to_{i}": f"{place}0"}
    return asked


def _around(location: str) -> list[str]:
    parts = location.rstrip("/").split("/")
    around = ["/".join(parts[:i]) for i in range(1, len(parts))]
    return [*around, *(f"{a}/" for a in around)]


def lies_in(column: sa.ColumnElement[Any], location: str) -> sa.ColumnElement[bool]:
    """Return the condition that a location is the given one or lies in it."""
    location = location.rstrip("/")
    # "0" is the character after "/".
    return sa.or_(column == location, sa.and_(column >= f"{location}/", column < f"{location}0"))


class DroppedTables:
    """Dropped tables whose directories are not deleted yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def undeleted(self, location: str | None = None) -> list[DroppedTable]:
        """Return the dropped tables whose directories are still to be deleted, the oldest first.

        Args:
            location: Only those that lie there, in it or around it.
        """
        with self._database.reading() as connection:
            return _undeleted(connection, location)

    def while_undeleted(self, table_id: int, work: Callable[[], bool]) -> bool | None:
        """Return what ``work`` returns, under the lock of the dropped table's row; None, and nothing done, without one.

        Args:
            table_id: The table's number.
            work: Is short, and may be called again.
        """
        d = dropped_tables.c
        held = sa.select(d.table_id).where(d.table_id == table_id, d.location.is_not(None)).with_for_update()

        def locked(connection: sa.Connection) -> bool | None:
            return work() if connection.execute(held).scalar() is not None else None

        return self._database.write(locked)

    def note_deleted(self, dropped: DroppedTable, owner: str) -> None:
        """Give a dropped table's directory free, once nothing is in it.

        A finished transaction stays, for registrations that listed files of the directory before.

        Args:
            dropped: The table.
            owner: Names the process, for people.
        """
        d = dropped_tables.c
        mine = (d.table_id == dropped.table_id, d.location.is_not(None))
        gone = sa.update(dropped_tables).where(*mine).values(name=None, location=None, directory=None)

        def work(connection: sa.Connection) -> None:
            if connection.execute(gone).rowcount:
                deleted = deletion(
                    dropped.table_id, dropped.name, dropped.location, DataDeletion.INSIDE,
                    operation="DROP TABLE", state=State.FINISHED, owner=owner, staging="", version=0,
                    now_ms=now_ms(connection),
                )  # fmt: skip
                insert_within(connection, deleted)

        self._database.write(work)


def any_undeleted(connection: sa.Connection) -> bool:
    """Return whether any directory of a dropped table is still to be deleted: hardly ever."""
    return _ANY_UNDELETED.scalar(connection) is not None


_ANY_UNDELETED = Prepared(sa.select(dropped_tables.c.table_id).where(dropped_tables.c.location.is_not(None)).limit(1))


def being_deleted(connection: sa.Connection, directories: Collection[str]) -> dict[str, DroppedTable]:
    """Return those of some directories that lie in one of a dropped table that is still to be deleted.

    The caller has the tables stay that lie there (``hold_tables``), and so comes before their DROP or after it.
    """
    dropped = _undeleted(connection, None) if directories and any_undeleted(connection) else []
    return {place: one for place in directories for one in dropped if _lies_in(place, one.location)}


def hold_tables_around(connection: sa.Connection, locations: Collection[str]) -> None:
    """Have the tables stay, until the transaction ends, in whose directories something is to lie.

    Whoever drops one of them comes before this, and has left a row in ``dropped_tables``, or sees what was put there.
    """
    spelled = {place for location in locations for place in both_spellings(location)}
    if connection.dialect.name != "sqlite":
        # SQLite lets one writer through at a time, and needs no locks.
        spelled.update(*other_spellings(connection, spelled).values())
    places = sorted({place for location in spelled for place in (location, *_around(location))})
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

    Args:
        connection: Of the index.
        identifier: The table that is to lie there.
        location: The directory.
        partition: The partition of the table, where it is that which is to lie there, after ``hold_tables_around``.

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
            "another location; if whoever dropped it has died, `catalog-ext recover --older-than 0s` deletes the rest.",
            {"table": str(identifier), "location": location},
        )


def check_droppable(connection: sa.Connection, table: Table, *, deletes: bool, by: str | None = None) -> None:
    """Return if a table may be dropped; its row, and its namespace's where files go, is locked.

    Args:
        connection: In a transaction.
        table: The table.
        deletes: Whether its directory is deleted.
        by: The transaction that drops it, as a replacement does.

    Raises:
        ConflictError: Files of it are being moved, or a table is being created in its directory.
        TableLayoutError: Another table lies in its directory, or a partition of one, and would lose its files.
    """
    t = transactions.c
    busy = sa.select(transactions).where(
        t.state.in_([str(State.RESERVED), str(State.ABORTING)]), t.transaction_id != (by or "")
    )
    for row in connection.execute(busy).mappings():
        one = from_row(dict(row))
        if one.plan.moves and table.table_id in (one.table_id, one.plan.source_id):
            raise _busy(table, one.transaction_id, f"the {one.operation} of table {one.table} is moving its files")
        creates = deletes and one.plan.definition is not None
        if creates and _lies_in(one.plan.location, table.definition.location):
            raise _busy(table, one.transaction_id, f"table {one.table} is being created at {one.plan.location}")
    if deletes:
        _check_alone(connection, table)
        _check_no_partition_inside(connection, table)


def check_nothing_waits(connection: sa.Connection, table: Table) -> None:
    """Return if no stream keeps rows of the table back; its row is locked.

    Raises:
        ConflictError: One does: without the table nobody would know of them any more.
    """
    w = waiting_files.c
    name = connection.execute(sa.select(w.name).where(w.table_id == table.table_id).limit(1)).scalar()
    if name is not None:
        raise ConflictError(
            f"Rows of a stream into table {table.identifier} wait for their partitions to be due, such as "
            f"{name[:200]!r}: the files that stay would be without them. Nothing was done. Let the "
            f"query end, or commit them: `catalog-ext release-waiting {table.identifier}`, or CALL "
            f"<catalog>.system.release_waiting(table => '{table.identifier}').",
            {"table": str(table.identifier), "partition": name[:200]},
        )


def _busy(table: Table, transaction_id: str, why: str) -> ConflictError:
    return ConflictError(
        f"Table {table.identifier} cannot be dropped yet: {why} (transaction {transaction_id}). Nothing was done. Try "
        "again; if its process is gone, `catalog-ext recover --older-than 0s` finishes or undoes it.",
        {"table": str(table.identifier), "transaction": transaction_id},
    )


def _check_alone(connection: sa.Connection, table: Table) -> None:
    location = table.definition.location
    others = (
        sa.select(namespaces.c.name.label("namespace"), tables.c.name, tables.c.location)
        .join(tables, tables.c.namespace_id == namespaces.c.namespace_id)
        .where(tables.c.table_id != table.table_id)
    )
    other = _first_inside(connection, others, tables.c.location, location)
    if other is not None:
        shown = f"{other.namespace}.{other.name}"
        raise TableLayoutError(
            f"Table {table.identifier} cannot be dropped: table {shown} lies at {other.location}, in the "
            f"directory {location} that would be deleted. Drop or unregister that one before, or unregister this one, "
            "which keeps all files.",
            {"table": str(table.identifier), "location": location, "other": shown},
        )


def _check_no_partition_inside(connection: sa.Connection, table: Table) -> None:
    """Return if no partition of another table lies in the directory.

    One may have got its location there, as by ADD PARTITION … LOCATION, or have it by its name in a table around.
    """
    location, p = table.definition.location, partitions.c
    located = (
        sa.select(namespaces.c.name.label("namespace"), tables.c.name.label("other"), p.name, p.location)
        .select_from(partitions)
        .join(tables, tables.c.table_id == p.table_id)
        .join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
        .where(p.location.is_not(None), p.end_version == ALIVE, p.table_id != table.table_id)
    )
    found = _first_inside(connection, located, p.location, location) or _first_below(connection, table)
    if found is not None:
        other = f"{found.namespace}.{found.other}"
        place = found.location or location
        raise TableLayoutError(
            f"Table {table.identifier} cannot be dropped: the partition {found.name[:200]!r} of table {other} lies at "
            f"{place}, in the directory {location} that would be deleted. Drop that partition (of an external "
            "table its files stay), or unregister this table, which keeps all files.",
            {"table": str(table.identifier), "location": location, "other": other, "partition": found.name[:200]},
        )


def _first_below(connection: sa.Connection, table: Table) -> sa.Row[Any] | None:
    """Return a partition of a table around that lies in the directory of a table by its name."""
    location, p = table.definition.location, partitions.c
    places = sorted({place for spelled in both_spellings(location) for place in _around(spelled)})
    around = sa.select(tables.c.table_id, tables.c.location).where(
        tables.c.location.in_(places), tables.c.table_id != table.table_id
    )
    for outer in connection.execute(around).all():
        root = f"{outer.location.rstrip('/')}/"
        names = [place.removeprefix(root) for place in both_spellings(location) if place.startswith(root)]
        # "0" is the character after "/".
        inside_of = (sa.or_(p.name == name, sa.and_(p.name > f"{name}/", p.name < f"{name}0")) for name in names)
        by_name: sa.Select[Any] = (
            sa.select(namespaces.c.name.label("namespace"), tables.c.name.label("other"), p.name, p.location)
            .select_from(partitions)
            .join(tables, tables.c.table_id == p.table_id)
            .join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
            .where(p.table_id == outer.table_id, p.location.is_(None), p.end_version == ALIVE, sa.or_(*inside_of))
        )
        found = connection.execute(by_name.limit(1)).first()
        if found is not None:
            return found
    return None


def _first_inside(
    connection: sa.Connection, statement: sa.Select[Any], column: sa.ColumnElement[Any], location: str
) -> sa.Row[Any] | None:
    """Return a row whose ``location`` is the given one or lies in it, by any name of the directory."""
    found = connection.execute(statement.where(lies_in(column, location)).limit(1)).first()
    scheme = scheme_with_names(location)
    if found is not None or scheme is None:
        return found
    keys = PlaceKeys()
    root = keys.of(location)
    there = connection.execute(statement.where(lies_in(column, scheme)))
    return next((row for row in there if _contains(root, keys.of(row.location))), None)


def _lies_in(place: str, directory: str) -> bool:
    """Return whether a place is a directory or lies in it, by any name of the directory."""
    scheme = scheme_with_names(directory)
    if _contains(directory, place) or scheme is None or not place.startswith(scheme):
        return _contains(directory, place)
    keys = PlaceKeys()
    return _contains(keys.of(directory), keys.of(place))


def _contains(directory: str, other: str) -> bool:
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
    return _contains(one, other) or _contains(other, one)


@cache
def _undeleted_there(asked: tuple[str, ...]) -> Prepared:
    d = dropped_tables.c
    statement = sa.select(d.table_id, d.name, d.location, d.dropped_at_ms, d.directory).where(d.location.is_not(None))
    if asked:
        statement = statement.where(overlaps(d.location, dict.fromkeys(asked)))
    return Prepared(statement.order_by(d.dropped_at_ms, d.table_id))
