"""The deletion gate of what registers files: no file is registered that a transaction is deleting or moving.

The transactions are found by the paths of their files and not by their tables: two tables may share a directory, and a
table may have been unregistered and registered again since.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.claims import replaced_by
from catalog_ext.metastore.commit.plan import CheckedDrop, CheckedWrite, OverwritePartitions
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.errors import ConflictError, TableNotFoundError
from catalog_ext.metastore.index.database.database import ComesAfter
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import partitions, tables, transaction_claims, transactions
from catalog_ext.metastore.index.read.partitions import partitions_at_within
from catalog_ext.metastore.index.read.spellings import other_spellings
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.dropped import hold_tables, inside, overlap, overlaps
from catalog_ext.metastore.index.write import settling
from catalog_ext.metastore.index.write.deletion_checks import ends_files
from catalog_ext.metastore.index.write.transaction_files import next_document, staged_within
from catalog_ext.metastore.index.write.transaction_rows import MOVES, from_row
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import DataFile, Table

_T = transactions.c

_PLACES_AT_ONCE = 50
"""Directories in one query: it has a part for each."""
_APPENDS = '%"kind":"append"%'
"""What the plans of appends have. They delete no file that another table could register, unless they move some."""


class DeletedFilesError(ConflictError):
    """Files to be registered are being deleted or moved, or may have been deleted since they were listed.

    Attributes:
        directories: The directories with such files; of a statement that has ended, those near its table.
        has_ended: Whether the statement has ended: the store says which files are left.
        deletion: Which statement deletes which file, in words.
    """

    directories: Collection[str] = ()
    has_ended = False
    deletion = ""


def _deleting() -> sa.Select[Any]:
    """Return the query of transactions that delete or move files, or have since the registration listed its own.

    A finished one has forgotten its removals, so that a command that listed the directory before it would register
    files that are gone. Its lease ends after its commit: that condition is the one that the index has. Of the table's
    own statements the versions of partitions say enough, but for vacuum, which makes none.
    """
    own = transactions.alias("own")
    began = sa.select(own.c.began_at_ms).where(own.c.transaction_id == sa.bindparam("mine")).scalar_subquery()
    since = sa.func.coalesce(sa.bindparam("listed_at_ms", type_=sa.BigInteger()), began)
    others = sa.func.coalesce(_T.table_id, 0) != sa.bindparam("table_id")
    return sa.select(transactions).where(
        _T.transaction_id != sa.bindparam("mine"),
        sa.or_(
            _T.state == str(State.COMMITTED),
            sa.and_(_T.state.in_([str(State.RESERVED), str(State.ABORTING)]), others),
            sa.and_(
                _T.state == str(State.FINISHED), _T.expires_at_ms >= since, _T.ended_at_ms >= since,
                sa.or_(others, _T.operation == VACUUM), sa.or_(~_T.plan.like(_APPENDS), _T.plan.like(MOVES)),
            ),
        ),
    )  # fmt: skip


_DELETING = Prepared(_deleting())


def require_unclaimed(
    connection: sa.Connection,
    table: Table,
    registered: Callable[[], Mapping[str, Mapping[str, DataFile]]],
    transaction_id: str = "",
    listed_at_ms: int | None = None,
) -> None:
    """Return if no transaction is deleting or moving a file that is registered, or may have since it was listed.

    Args:
        connection: Holds the lock of the table's row.
        table: The table that gets the files.
        registered: Returns the files by directory and name, without files that the transaction itself has written.
        transaction_id: The transaction that registers them, if one does.
        listed_at_ms: A time before they were listed, by the database's clock; None: the transaction's begin.

    Raises:
        DeletedFilesError: One is. Nothing was changed.
        ComesAfter: A DELETE of everything has not listed all its files yet.
    """
    asked = {"mine": transaction_id, "table_id": table.table_id, "listed_at_ms": listed_at_ms}
    if connection.dialect.name == "sqlite" and not _DELETING.rows(connection, asked):
        return  # one process writes at a time: no deletion begins before this transaction ends
    if not (found := {directory: files for directory, files in registered().items() if files}):
        return
    spellings = other_spellings(connection, list(found))
    own_names = {other: directory for directory, spelled in spellings.items() for other in spelled}
    found = {**{other: found[directory] for other, directory in own_names.items()}, **found}
    if connection.dialect.name != "sqlite":
        # A statement that reserves their deletion is seen below, or waits for this transaction's end and sees them.
        hold_tables(connection, tables_that_may_delete(connection, table, found))
    ended: list[tuple[Transaction, dict[str, str]]] = []
    for row in _DELETING.rows(connection, asked):
        other = from_row(row)
        if other.state is State.RESERVED and row["replaces"] == table.table_id:
            # It leaves what a repair of its own table registers from now on, for the new table.
            continue
        taken = {own_names.get(at, at): uri for at, uri in _taken(connection, other, row["replaces"], found).items()}
        if taken and other.state is State.FINISHED:
            ended.append((other, taken))
        elif taken:
            raise _refusal(table, other, taken)
    if ended:
        # Together: the caller looks again at all of them, and asks from that time on.
        raise _refusal(table, ended[0][0], {place: uri for _, taken in ended for place, uri in taken.items()})


def _refusal(table: Table, other: Transaction, taken: Mapping[str, str]) -> DeletedFilesError:
    first = min(taken.values())
    refused = ConflictError(
        f"The {other.operation} {other.transaction_id} of table {other.table} is deleting or moving {first}, "
        f"or has just done so: table {table.identifier} cannot register it now. Try again "
        "when that statement has ended. If its process is gone, `catalog-ext recover --older-than 0s` "
        "finishes it.",
        {"table": str(table.identifier), "location": first, "transaction": other.transaction_id},
    )
    error = DeletedFilesError(refused.message, refused.parameters)
    error.directories = frozenset(taken)
    error.has_ended = other.state is State.FINISHED
    error.deletion = f"the {other.operation} {other.transaction_id} of table {other.table} deletes or moves {first}"
    return error


def tables_that_may_delete(connection: sa.Connection, table: Table, directories: Collection[str]) -> set[int]:
    """Return the numbers of the other tables whose statements may delete files in directories of a table."""
    root = table.definition.location
    outside = [place for place in directories if place != root and not place.startswith(f"{root}/")]
    numbers: set[int] = set()
    for places in batched([*outside, *([root] if len(outside) < len(directories) else ())], _PLACES_AT_ONCE):
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
    connection: sa.Connection, other: Transaction, replaces: int | None, found: Mapping[str, Mapping[str, DataFile]]
) -> dict[str, str]:
    """Return the directories with files that the transaction deletes or moves, each with the URI of one."""
    moving = other.state in (State.RESERVED, State.ABORTING)
    if other.plan.moves and moving:
        return _moved(connection, other, found)
    taken: dict[str, str] = {}
    if other.state is State.COMMITTED:
        taken = _removed(connection, other, found)
    elif other.state is State.FINISHED:
        taken = _was_near(other.plan, replaces, found)
    elif other.state is State.RESERVED and other.plan.definition is not None:
        taken = _to_be_replaced(connection, other.plan, replaces, found)
    elif other.state is State.RESERVED:
        taken = _to_be_removed(connection, other, found)
    # A load has moved its sources before it is committed, from places that its plan does not name.
    return {**_moved(connection, other, found), **taken} if other.plan.takes else taken


def _moved(
    connection: sa.Connection, other: Transaction, found: Mapping[str, Mapping[str, DataFile]]
) -> dict[str, str]:
    """Return the directories with files that the transaction moves, from or to them, or has moved from them."""
    moving = other.state in (State.RESERVED, State.ABORTING)
    taken: dict[str, str] = {}
    for value in staged_within(connection, other.transaction_id):
        targets = [f"{other.plan.directory(value['partition'])}/{value['name']}"] if moving else []
        for uri in (value["source"], *targets):
            directory, _, name = uri.rpartition("/")
            if name in found.get(directory, ()):
                taken.setdefault(directory, uri)
    return taken


def _was_near(plan: WritePlan, replaces: int | None, found: Mapping[str, Mapping[str, DataFile]]) -> dict[str, str]:
    """Return the directories whose files a finished transaction may have deleted after they were listed."""
    if not (ends_files(plan) or plan.takes or (plan.definition is not None and replaces is not None)):
        return {}
    return {place: f"{place}/{min(found[place])}" for place in found if plan.may_delete_near(place)}


def _to_be_replaced(
    connection: sa.Connection, plan: WritePlan, replaces: int | None, found: Mapping[str, Mapping[str, DataFile]]
) -> dict[str, str]:
    """Return the directories of partitions whose files go with the table that a reserved REPLACE TABLE replaces."""
    if replaces is None:
        return {}
    try:
        table = table_from_row(table_rows.load_row_by_id(connection, replaces))
    except TableNotFoundError:
        # Its commit fails, and it deletes nothing but its own files.
        return {}
    if rules.keeps_files(table, plan):
        return {}
    places = partitions_at_within(connection, table, list(found))
    return {place: f"{place}/{min(found[place])}" for place in places if rules.goes_with_table(table, place)}


def _removed(
    connection: sa.Connection, other: Transaction, found: Mapping[str, Mapping[str, DataFile]]
) -> dict[str, str]:
    """Return the directories with files that the committed transaction has not deleted yet."""
    taken: dict[str, str] = {}
    if not any(map(other.plan.may_delete_near, found)):
        return taken
    if settling.is_unsettled(connection, other.transaction_id):
        raise ComesAfter(lambda database: settling.Settlements(database).settle_write(other.transaction_id))
    after: int | None = -1
    while after is not None:
        after, payload = next_document(connection, other.transaction_id, after, removal=True)
        for removal in map(removal_from_json, json.loads(payload or "[]")):
            directory, _, name = removal.path.rpartition("/")
            file = found.get(directory, {}).get(name)
            if file is None:
                continue
            # Older releases recorded the time of the commit for an object that a write has uploaded.
            modified_ms = None if directory.startswith("s3a:") and removal.etag is None else file.modified_ms
            if removal.is_still(file.size, modified_ms, file.etag):
                taken.setdefault(directory, removal.path)
    return taken


def _to_be_removed(
    connection: sa.Connection, other: Transaction, found: Mapping[str, Mapping[str, DataFile]]
) -> dict[str, str]:
    """Return the directories of partitions whose files the reserved transaction will delete."""
    plan, change = other.plan, other.plan.change
    if not isinstance(change, CheckedWrite | CheckedDrop) or other.table_id is None:
        return {}
    try:
        table = table_from_row(table_rows.load_row_by_id(connection, other.table_id))
    except TableNotFoundError:
        # Its commit fails, and it deletes nothing but its own files.
        return {}
    taken: dict[str, str] = {}
    for name, removals in change.unknown.items():
        place = plan.locations.get(name) or table.directory(name)
        for removal in removals:
            if removal.path in found.get(place, {}):
                taken.setdefault(place, f"{place}/{removal.path}")
    if isinstance(change, CheckedWrite) and plan.relocate:
        return taken
    is_replaced = _replaced(connection, other, table)
    for place, names in partitions_at_within(connection, table, list(found)).items():
        deletes = not isinstance(change, CheckedDrop) or rules.deletes(change.asked, table, place)
        if deletes and any(is_replaced(name) for name in names):
            taken.setdefault(place, f"{place}/{min(found[place])}")
    return taken


def _replaced(connection: sa.Connection, other: Transaction, table: Table) -> Callable[[str], bool]:
    if other.plan.definition is not None:
        return lambda _: True
    if not isinstance(other.plan.asked, OverwritePartitions):
        return replaced_by(other.plan, table)
    c = transaction_claims.c
    named = sa.select(c.name).where(c.transaction_id == other.transaction_id, c.table_id == table.table_id)
    return set(connection.execute(named).scalars()).__contains__
