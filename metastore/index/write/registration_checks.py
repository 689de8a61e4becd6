"""The deletion gate of what registers files: no file is registered that a transaction is deleting or moving.

The transactions are found by the paths of their files and not by their tables: two tables may share a directory, and a
table may have been unregistered and registered again since.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.claims import replaced_by
from catalog_ext.metastore.commit.plan import CheckedDrop, CheckedWrite, OverwritePartitions
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError, TableNotFoundError
from catalog_ext.metastore.index.database.database import ComesAfter
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import partitions, tables, transaction_claims, transactions
from catalog_ext.metastore.index.read.reader import partitions_at_within
from catalog_ext.metastore.index.tables import tables as table_rows
from catalog_ext.metastore.index.tables.dropped import hold_tables, inside, overlap, overlaps
from catalog_ext.metastore.index.write import settling
from catalog_ext.metastore.index.write.deletion_checks import ends_files
from catalog_ext.metastore.index.write.transaction_files import next_document, staged_within
from catalog_ext.metastore.index.write.transactions import from_row
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import DataFile, Table

_T = transactions.c

_PLACES = 50
"""Directories in one query: it has a part for each."""


def _deleting() -> sa.Select[Any]:
    """Return the query of transactions that delete or move files, or have since the registration listed its own.

    A finished one has forgotten its removals, so that a command that listed the directory before it would register
    files that are gone. Its lease ends after its commit: that condition is the one that the index has.
    """
    own = transactions.alias("own")
    began = sa.select(own.c.began_at_ms).where(own.c.transaction_id == sa.bindparam("mine")).scalar_subquery()
    others = sa.func.coalesce(_T.table_id, 0) != sa.bindparam("table_id")
    return sa.select(transactions).where(
        _T.transaction_id != sa.bindparam("mine"),
        sa.or_(
            _T.state == str(State.COMMITTED),
            sa.and_(_T.state.in_([str(State.RESERVED), str(State.ABORTING)]), others),
            sa.and_(_T.state == str(State.FINISHED), _T.expires_at_ms >= began, _T.ended_at_ms >= began, others),
        ),
    )


_DELETING = Prepared(_deleting())


def require_unclaimed(
    connection: sa.Connection, table: Table, found: Mapping[str, Mapping[str, DataFile]], transaction_id: str = ""
) -> None:
    """Return if no transaction is deleting or moving a file that is registered.

    Args:
        connection: Holds the lock of the table's row.
        table: The table that gets the files.
        found: The files by directory and name; files that the transaction itself has written are not among them.
        transaction_id: The transaction that registers them, if one does.

    Raises:
        ConflictError: One is. Nothing was changed.
        ComesAfter: A DELETE of everything has not listed all its files yet.
    """
    found = {directory: files for directory, files in found.items() if files}
    if not found:
        return
    if connection.dialect.name != "sqlite":
        # SQLite lets one writer through at a time. Elsewhere a statement that reserves the deletion of these files
        # comes before this transaction, and is seen below, or waits for its end, and sees the files.
        _hold_tables(connection, table, found)
    for row in _DELETING.rows(connection, {"mine": transaction_id, "table_id": table.table_id}):
        other = from_row(row)
        # A REPLACE TABLE belongs to no table before its commit. What the replaced one itself registers meanwhile stays.
        loses = row["replaces"] if other.table_id is None else other.table_id
        if other.table_id is None and loses == table.table_id:
            continue
        taken = _taken(connection, other, loses, found)
        if taken is not None:
            raise ConflictError(
                f"The {other.operation} {other.transaction_id} of table {other.table} is deleting or moving {taken}, "
                f"or has just done so: table {table.identifier} cannot register it. Nothing was changed; try again "
                "when that statement has ended. If its process is gone, `catalog-ext recover --older-than 0s` "
                "finishes it.",
                {"table": str(table.identifier), "location": taken, "transaction": other.transaction_id},
            )


def _hold_tables(connection: sa.Connection, table: Table, directories: Collection[str]) -> None:
    """Take shared locks of the other tables whose statements may delete files in the directories."""
    hold_tables(connection, tables_that_may_delete(connection, table, directories))


def tables_that_may_delete(connection: sa.Connection, table: Table, directories: Collection[str]) -> set[int]:
    """Return the numbers of the other tables whose statements may delete files in directories of a table."""
    root = table.definition.location
    outside = [place for place in directories if place != root and not place.startswith(f"{root}/")]
    numbers: set[int] = set()
    for places in batched([*outside, *([root] if len(outside) < len(directories) else ())], _PLACES):
        asked = overlap(*places)
        numbers.update(_others_at(tuple(asked)).scalars(connection, {**asked, "table_id": table.table_id}))
    return numbers


@cache
def _others_at(asked: tuple[str, ...]) -> Prepared:
    """Return the query of the other tables at, in or around some places, or that have or had a partition there."""
    p = partitions.c
    mine: sa.BindParameter[int] = sa.bindparam("table_id")
    others = [
        sa.select(tables.c.table_id).where(tables.c.table_id != mine, overlaps(tables.c.location, dict.fromkeys(asked)))
    ]
    others += [sa.select(p.table_id).where(p.table_id != mine, one) for one in inside(p.location, asked)]
    return Prepared(sa.union(*others))


def _taken(
    connection: sa.Connection, other: Transaction, loses: int | None, found: Mapping[str, Mapping[str, DataFile]]
) -> str | None:
    """Return the URI of a file that the transaction deletes or moves; None where it touches none of them.

    Args:
        connection: In a transaction.
        other: The transaction.
        loses: The number of the table that loses the files, if there is one.
        found: The files by directory and name.
    """
    if other.plan.moves and other.state in (State.RESERVED, State.ABORTING):
        return _moved(connection, other, found)
    match other.state:
        case State.COMMITTED:
            taken = _removed(connection, other, found)
        case State.FINISHED:
            taken = _was_near(other.plan, found)
        case State.RESERVED if loses is not None:
            taken = _to_be_removed(connection, other, loses, found)
        case _:
            taken = None
    # A load has moved its sources before it is committed, from places that its plan does not name.
    return _moved(connection, other, found) if taken is None and other.plan.takes else taken


def _moved(connection: sa.Connection, other: Transaction, found: Mapping[str, Mapping[str, DataFile]]) -> str | None:
    """Return a file that the transaction moves, at either of its two places, or has moved from its source."""
    moving = other.state in (State.RESERVED, State.ABORTING)
    for value in staged_within(connection, other.transaction_id):
        targets = [f"{other.plan.directory(value['partition'])}/{value['name']}"] if moving else []
        for uri in (value["source"], *targets):
            directory, _, name = uri.rpartition("/")
            if name in found.get(directory, ()):
                return str(uri)
    return None


def _was_near(plan: WritePlan, found: Mapping[str, Mapping[str, DataFile]]) -> str | None:
    """Return a file that a finished transaction may have deleted after it was listed."""
    if not (ends_files(plan) or plan.definition is not None):
        return None
    near = (directory for directory in found if plan.may_delete_near(directory))
    return next((f"{directory}/{min(found[directory])}" for directory in near), None)


def _removed(connection: sa.Connection, other: Transaction, found: Mapping[str, Mapping[str, DataFile]]) -> str | None:
    """Return a file that the committed transaction has not deleted yet."""
    if not any(map(other.plan.may_delete_near, found)):
        return None
    if settling.is_unsettled(connection, other.transaction_id):
        raise ComesAfter(partial(settling.settle_write, transaction_id=other.transaction_id))
    after: int | None = -1
    while after is not None:
        after, payload = next_document(connection, other.transaction_id, after, removal=True)
        for removal in map(removal_from_json, json.loads(payload or "[]")):
            directory, _, name = removal.path.rpartition("/")
            file = found.get(directory, {}).get(name)
            if file is None:
                continue
            # The index has the time of the commit for an object that a write has uploaded, and not the store's.
            modified_ms = removal.modified_ms if directory.startswith("s3a:") else file.modified_ms
            if removal.is_still(file.size, modified_ms or 0):
                return removal.path
    return None


def _to_be_removed(
    connection: sa.Connection, other: Transaction, loses: int, found: Mapping[str, Mapping[str, DataFile]]
) -> str | None:
    """Return a file in the directory of a partition whose files the reserved transaction will delete."""
    plan, change = other.plan, other.plan.change
    if not isinstance(change, CheckedWrite | CheckedDrop):
        return None
    try:
        table = table_from_row(table_rows.load_row_by_id(connection, loses))
    except TableNotFoundError:
        # Its commit fails, and it deletes nothing but its own files.
        return None
    for name, removals in change.unknown.items():
        directory = plan.locations.get(name) or table.directory(name)
        files = found.get(directory, {})
        taken = next((f"{directory}/{removal.path}" for removal in removals if removal.path in files), None)
        if taken is not None:
            return taken
    is_replaced = _replaced(connection, other, table)
    for place, names in partitions_at_within(connection, table, list(found)).items():
        if _deletes_at(plan, table, place) and any(is_replaced(name) for name in names):
            return f"{place}/{min(found[place])}"
    return None


def _deletes_at(plan: WritePlan, table: Table, place: str) -> bool:
    """Return whether the files of a partition that a statement ends are deleted, by the partition's directory."""
    if isinstance(plan.change, CheckedDrop):
        return rules.deletes(plan.change.asked, table, place)
    return rules.goes_with(table, plan.location, place) if plan.definition is not None else not plan.relocate


def _replaced(connection: sa.Connection, other: Transaction, table: Table) -> Callable[[str], bool]:
    if other.plan.definition is not None:
        return lambda _: True
    if not isinstance(other.plan.asked, OverwritePartitions):
        return replaced_by(other.plan, table)
    c = transaction_claims.c
    named = sa.select(c.name).where(c.transaction_id == other.transaction_id, c.table_id == table.table_id)
    return set(connection.execute(named).scalars()).__contains__
