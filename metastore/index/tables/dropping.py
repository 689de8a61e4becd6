"""Drops tables and views: the checks before a drop, the drop itself, and the removal of the rows in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import (
    PARTITION_NUMBER_BITS,
    applications,
    dropped_tables,
    file_statistics,
    files,
    followed_tables,
    forgotten_transactions,
    namespaces,
    partition_descriptors,
    partition_sums,
    partitions,
    repairs,
    settlements,
    skipped_paths,
    table_definitions,
    table_versions,
    tables,
    transaction_claims,
    transactions,
    verifications,
    version_holds,
    view_partition_dependencies,
    view_sources,
    views,
    waiting_files,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.spellings import PlaceKeys, scheme_with_names
from catalog_ext.metastore.index.tables.dropped import contains, directories_around, lies_inside, overlap, overlaps
from catalog_ext.metastore.index.tables.namespaces import namespace_number
from catalog_ext.metastore.index.tables.table_rows import load, not_found
from catalog_ext.metastore.index.write.deferred_deletes import require_complete
from catalog_ext.metastore.index.write.outbox import enqueue, forget_table
from catalog_ext.metastore.index.write.transaction_rows import from_row
from catalog_ext.metastore.messages import DropTable
from catalog_ext.metastore.runtime.local_paths import both_spellings, directory_identity

if TYPE_CHECKING:
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table


def check_droppable(connection: sa.Connection, table: Table, *, deletes: bool, by: str | None = None) -> None:
    """Check that a table may be dropped; the caller has locked the table's row.

    ``deletes`` says that the table's directory will be deleted; then the namespace's row is locked too. ``by`` is the
    transaction that drops the table, if it replaces the table.

    Raises:
        ConflictError: Files of the table are being moved, or another table is being created in its directory.
        TableLayoutError: Another table, or a partition of another table, lies in the directory and would lose its
            files.
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
        if creates and lies_inside(one.plan.location, table.definition.location):
            raise _busy(table, one.transaction_id, f"table {one.table} is being created at {one.plan.location}")
    if deletes:
        _check_alone(connection, table)
        _check_no_partition_inside(connection, table)


def check_nothing_waits(connection: sa.Connection, table: Table) -> None:
    """Check that no stream holds back files in the table, whose row the caller has locked.

    Raises:
        ConflictError: A stream holds back files until their partitions are due. Without the table, no process would
            find them again.
    """
    w = waiting_files.c
    partition = connection.execute(sa.select(w.name).where(w.table_id == table.table_id).limit(1)).scalar()
    if partition is not None:
        raise ConflictError(
            f"Rows of a stream into table {table.identifier} are not committed yet and wait for their partitions, "
            f"such as {partition[:200]!r}: the table's remaining files would lack them. Nothing was done. Let the "
            f"query end, or commit them: `catalog-ext release-waiting {table.identifier}`, or CALL "
            f"<catalog>.system.release_waiting(table => '{table.identifier}').",
            {"table": str(table.identifier), "partition": partition[:200]},
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


_LIVING: sa.Select[Any] = (
    sa.select(
        namespaces.c.name.label("namespace"), tables.c.name.label("other"), partitions.c.name, partitions.c.location
    )
    .select_from(partitions)
    .join(tables, tables.c.table_id == partitions.c.table_id)
    .join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
    .where(partitions.c.end_version == ALIVE)
)
"""Partitions of the newest versions of all tables, with the names of their tables."""


def _check_no_partition_inside(connection: sa.Connection, table: Table) -> None:
    """Check that no partition of another table lies in the table's directory.

    Such a partition was given its location there, as by ADD PARTITION … LOCATION, or its table's location is a parent
    directory of this table's, and the partition's default directory is in it.

    Raises:
        TableLayoutError: A partition of another table lies in the directory.
    """
    location, p = table.definition.location, partitions.c
    located = _LIVING.where(p.location.is_not(None), p.table_id != table.table_id)
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
    """Return a partition, in its default directory, that lies in this table's directory; None without one.

    Only tables whose location is a parent of this table's directory can have such a partition.
    """
    location, p = table.definition.location, partitions.c
    places = sorted({place for spelled in both_spellings(location) for place in directories_around(spelled)})
    around = sa.select(tables.c.table_id, tables.c.location).where(
        tables.c.location.in_(places), tables.c.table_id != table.table_id
    )
    for outer in connection.execute(around).all():
        root = f"{outer.location.rstrip('/')}/"
        names = [place.removeprefix(root) for place in both_spellings(location) if place.startswith(root)]
        # "0" is the character after "/": the range contains exactly the names below the directory.
        inside_of = (sa.or_(p.name == name, sa.and_(p.name > f"{name}/", p.name < f"{name}0")) for name in names)
        by_name = _LIVING.where(p.table_id == outer.table_id, p.location.is_(None), sa.or_(*inside_of))
        found = connection.execute(by_name.limit(1)).first()
        if found is not None:
            return found
    return None


def _first_inside(
    connection: sa.Connection, statement: sa.Select[Any], column: sa.ColumnElement[Any], location: str
) -> sa.Row[Any] | None:
    """Return a row whose ``location`` is the given directory or lies inside it, under any name of the directory."""
    found = connection.execute(statement.where(_lies_in(column, location)).limit(1)).first()
    scheme = scheme_with_names(location)
    if found is not None or scheme is None:
        return found
    keys = PlaceKeys()
    root = keys.of(location)
    there = connection.execute(statement.where(_lies_in(column, scheme)))
    return next((row for row in there if contains(root, keys.of(row.location))), None)


def _lies_in(column: sa.ColumnElement[Any], location: str) -> sa.ColumnElement[bool]:
    """Return the condition that a location is the given directory or lies in it."""
    location = location.rstrip("/")
    # "0" is the character after "/": the range contains exactly the locations below the directory.
    return sa.or_(column == location, sa.and_(column >= f"{location}/", column < f"{location}0"))


_ROWS_AT_ONCE = 5000


def drop_within(
    connection: sa.Connection, identifier: TableIdentifier, *, deliver: bool, purge: bool, deletes: bool = False,
    keeps_files: bool = False, by: str | None = None,
) -> Table:  # fmt: skip
    """Drop a table within a transaction; the caller must call ``remove_dropped_rows`` after the commit.

    Raises:
        TableNotFoundError: There is no table of this name.
        ConflictError: Files of the table are being moved, another table is being created in its directory, or (with
            ``keeps_files``) a stream holds back files in the table until their partitions are due.
        TableLayoutError: With ``deletes``: another table, or a partition of another table, lies in the directory.
    """
    if deletes:
        # Lock the namespace: a concurrent CREATE TABLE in the directory either commits before this drop, and is found
        # below, or waits and then finds that the directory is being deleted.
        namespace_number(connection, identifier.namespace, locks=True)
    table = load(connection, identifier)
    # Lock the table's row: a concurrent reservation that moves the table's files either commits before this drop, and
    # is found below, or waits and then finds no table.
    connection.execute(sa.select(tables.c.table_id).where(tables.c.table_id == table.table_id).with_for_update())
    # Load again: before the lock, another process may have renamed the table or changed its location.
    table = load(connection, identifier)
    require_complete(table.table_id, table.deleted_before_version)
    check_droppable(connection, table, deletes=deletes, by=by)
    if keeps_files:
        # Check after the lock: a stream that holds back files has either recorded them before, and is found, or waits
        # and then finds no table.
        check_nothing_waits(connection, table)
    forget_within(connection, table, deletes=deletes)
    if deliver:
        enqueue(connection, DropTable(table.definition, purge), table.table_id)
    return table


def forget_within(connection: sa.Connection, table: Table, *, deletes: bool = False) -> None:
    """Delete a table's or view's row, which frees its name, within a transaction.

    The caller must call ``remove_dropped_rows`` after the commit.

    Raises:
        TableNotFoundError: The table or view no longer exists.
    """
    if not connection.execute(sa.delete(tables).where(tables.c.table_id == table.table_id)).rowcount:
        raise not_found(str(table.identifier))
    hand_over_forgotten(connection, table)
    row = {
        "table_id": table.table_id,
        "dropped_at_ms": now_ms(connection),
        "name": str(table.identifier) if deletes else None,
        "location": table.definition.location if deletes else None,
        "directory": directory_identity(table.definition.location) if deletes else None,
    }
    connection.execute(sa.insert(dropped_tables), row)
    forget_table(connection, table.table_id)


def hand_over_forgotten(connection: sa.Connection, table: Table) -> None:
    """Assign the remembered ids of a table's removed transactions to another table at, in or around its location.

    The vacuum of that table then recognizes files that these transactions left behind.
    """
    if not table.definition.location:
        return
    asked = overlap(table.definition.location)
    around = sa.select(tables.c.table_id).where(overlaps(tables.c.location, asked))
    successor = connection.execute(around.order_by(tables.c.table_id).limit(1), asked).scalar()
    if successor is not None:
        f = forgotten_transactions.c
        mine = sa.update(forgotten_transactions).where(f.table_id == table.table_id)
        connection.execute(mine.values(table_id=successor))


def remove_some(connection: sa.Connection, table_id: int) -> bool:
    """Remove at most about 5,000 rows of a dropped table; return whether more may be left."""
    low = table_id << PARTITION_NUMBER_BITS
    high = low + (1 << PARTITION_NUMBER_BITS)
    for find_end, remove in _REMOVE_BY_PARTITION:
        end = connection.execute(find_end, {"low": low, "high": high, "rows": _ROWS_AT_ONCE}).scalar()
        if connection.execute(remove, {"low": low, "high": high if end is None else end + 1}).rowcount:
            return True
    for remove in _REMOVE_BY_TABLE:
        connection.execute(remove, {"table_id": table_id})
    return False


def _by_partition(rows: sa.Table) -> tuple[sa.Select[int], sa.Delete]:
    """Return two statements for a range of partition ids: find the last id of the next batch, and delete a range."""
    ids = rows.c.partition_id
    between = (ids >= sa.bindparam("low"), ids < sa.bindparam("high"))
    some = sa.select(ids).where(*between).order_by(ids).limit(1).offset(sa.bindparam("rows"))
    return some, sa.delete(rows).where(*between)


def _by_table(rows: sa.Table, *also: sa.ColumnElement[bool]) -> sa.Delete:
    return sa.delete(rows).where(rows.c.table_id == sa.bindparam("table_id"), *also)


_REMOVE_BY_PARTITION = tuple(
    _by_partition(rows) for rows in (files, file_statistics, view_partition_dependencies, partitions)
)

_REMOVE_BY_TABLE = (
    *(_by_table(rows) for rows in (
        table_versions, table_definitions, partition_sums, applications, transaction_claims, waiting_files,
        forgotten_transactions, repairs, skipped_paths, verifications, views, view_sources, settlements,
        followed_tables, partition_descriptors, version_holds,
    )),
    _by_table(dropped_tables, dropped_tables.c.location.is_(None)),
)  # fmt: skip
