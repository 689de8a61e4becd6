"""The deletion gate: a statement deletes no file of another table's partition, and vacuum no file that any table needs.

The caller holds the lock of the table's row. ``registration_checks`` is the other half: a commit that registers files
takes a shared lock of that row first. So one of the two sees the other's changes.

Vacuum records the files that it is about to delete: a deletion claim is a transaction in state ``committed`` whose
removals are these files, which ``registration_checks`` refuses to register. Vacuum finishes its claim
(``IndexedTransactions.finish``) when the files are deleted; after a crash ``recover`` deletes the files and finishes
the claim. A finished claim records when files near the table were deleted, for repairs that listed the files before. It
is removed with the versions of the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.partition_plans import (
    CheckedDrop,
    CheckedExchange,
    CheckedRename,
    CheckedRollback,
    DataDeletion,
)
from catalog_ext.metastore.commit.plan import Append, CheckedWrite
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.rules import lies_inside
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import partitions, tables, transaction_files, transactions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.needed_files import users_within
from catalog_ext.metastore.index.read.spellings import has_linked_neighbour
from catalog_ext.metastore.index.tables.dropped import hold_tables, inside, overlap, overlaps
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.partition_rows import (
    by_values,
    living_files,
    living_of,
    lock_table,
    matching_numbers,
)
from catalog_ext.metastore.index.write.removals import RecordedDeletions
from catalog_ext.metastore.index.write.transaction_files import documents, staged_within
from catalog_ext.metastore.index.write.transaction_rows import insert_deletion
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.index.read.needed_files import FileUser
    from catalog_ext.metastore.model.tables import Partition, Table

_PARTITIONS, _FILES = 500, 5000
"""The most partitions and files that are checked together, since a statement may delete a million files."""
_PLACES_AT_ONCE = 50
"""The most directories in one query, which has a SELECT for each directory."""
_MINE: sa.BindParameter[int] = sa.bindparam("table_id")


def require_unneeded(
    connection: sa.Connection, transaction_id: str, plan: WritePlan, table: Table, names: Collection[str]
) -> None:
    """Check that no other table's current partition has a file that the statement deletes or moves.

    This takes one query, unless another table lies in, at or around the table's directory or has a partition there, or
    the table has partitions with their own location. For an exchange, ``table`` is the source, which loses the files.

    Raises:
        TableLayoutError: A partition of another table has such a file. Nothing is changed.
        ConflictError: An append would delete such a file, a leftover of a relocating overwrite. It finds the new state
            if it is run again. Nothing is changed.
    """
    if not (ends_files(plan) or unknown_files(plan)) or not _has_neighbours(connection, table):
        return
    if isinstance(plan.change, CheckedRename | CheckedExchange):
        moving = {moved.partition_id for moved in plan.change.partitions}
        sources = (file.source for file in staged_within(connection, transaction_id) if file.source is not None)
        for some in batched(sources, _FILES):
            _refuse(plan, table, users_within(connection, set(some), moving))
        return
    for some in batched(_doomed(connection, plan, table, names), _FILES):
        _refuse(plan, table, users_within(connection, set(some), besides_table=table.table_id))


def require_loadable(connection: sa.Connection, table: Table, sources: Iterable[str]) -> None:
    """Check that no current partition of any table has one of the files (URIs) that LOAD DATA moves into a table.

    Raises:
        ConflictError: A partition has registered such a file since the statement checked. Nothing is changed.
    """
    sources = list(sources)
    if connection.dialect.name != "sqlite":
        # Lock the tables that have or may get partitions with the files: a repair that registers the files either
        # commits before, and is seen below, or waits for this transaction and sees it.
        hold_tables(connection, tables_near(connection, table, {uri.rpartition("/")[0] for uri in sources}))
    for some in batched(sources, _FILES):
        users = users_within(connection, set(some))
        if users:
            uri, user = _shown(users)
            raise ConflictError(
                f"LOAD DATA would move the file {uri} into table {table.identifier}: {user} has registered it since "
                "this statement checked, and would lose its rows. Nothing was changed. Copy the rows with INSERT … "
                "SELECT.",
                {"table": str(table.identifier), "location": uri},
            )


def require_replaceable(connection: sa.Connection, plan: WritePlan, table: Table) -> None:
    """Check that no other table's current partition has a file that is deleted with a replaced table.

    Raises:
        TableLayoutError: A partition of another table has such a file. Nothing is changed.
    """
    if rules.keeps_files(table, plan) or not _has_neighbours(connection, table):
        return
    for numbers in batched(matching_numbers(connection, table, TRUE), _PARTITIONS):
        places = {p.partition_id: table.directory_of(p) for p in living_of(connection, numbers)}
        inside_table = {number: place for number, place in places.items() if rules.goes_with_table(table, place)}
        for some in batched(_living_files(connection, inside_table), _FILES):
            _refuse(plan, table, users_within(connection, set(some), besides_table=table.table_id))


def ends_files(plan: WritePlan) -> bool:
    """Return whether a statement deletes or moves files of current partitions.

    REPLACE TABLE is not considered: ``require_replaceable`` checks it.
    """
    match plan.change:
        case CheckedWrite(asked=asked):
            return not (plan.relocate or plan.definition is not None or isinstance(asked, Append))
        case CheckedDrop():
            return True
        case CheckedRename() | CheckedExchange() as moved:
            return moved.moves
        case _:
            return False


def unknown_files(plan: WritePlan) -> Mapping[str, tuple[Removal, ...]]:
    """Return, by partition, the files that the statement deletes and that its check has listed.

    These are files that are not in the index, and the files that a rollback deletes.
    """
    if isinstance(plan.change, CheckedRollback):
        return plan.change.deleted
    unknown = plan.change.unknown if isinstance(plan.change, CheckedWrite | CheckedDrop) else {}
    return {name: removals for name, removals in unknown.items() if removals}


def _has_neighbours(connection: sa.Connection, table: Table) -> bool:
    asked = overlap(table.definition.location)
    found = _neighbours(tuple(asked)).rows(connection, {**asked, "table_id": table.table_id})
    return bool(found) or has_linked_neighbour(connection, table)


@cache
def _neighbours(asked: tuple[str, ...]) -> Prepared:
    """Return the query for tables that may have files in the table's directory.

    It also returns the table itself, if it has partitions with their own location: then any table may have its files.
    """
    p = partitions.c
    # This SELECT comes first: if it finds a row, the query is done. Otherwise the search in the directory would read
    # all of these partitions.
    own = sa.select(p.table_id).where(p.table_id == _MINE, p.location.is_not(None), p.end_version == ALIVE)
    return Prepared(sa.union_all(own, *_others_around(asked, p.end_version == ALIVE)).limit(1))


def _others_around(asked: tuple[str, ...], *of_partitions: sa.ColumnElement[bool]) -> list[sa.Select[Any]]:
    """Return the queries for other tables at, in or around some places, or with partitions there."""
    p, around = partitions.c, overlaps(tables.c.location, dict.fromkeys(asked))
    return [
        sa.select(tables.c.table_id).where(tables.c.table_id != _MINE, around),
        *(sa.select(p.table_id).where(p.table_id != _MINE, *of_partitions, one) for one in inside(p.location, asked)),
    ]


def tables_near(connection: sa.Connection, table: Table, directories: Collection[str]) -> set[int]:
    """Return the numbers of the other tables whose statements may delete or register files in some directories.

    Directories (canonical URIs) inside the table's own directory are looked up together, by that directory.
    """
    root = table.definition.location
    outside = [place for place in directories if place != root and not place.startswith(f"{root}/")]
    numbers: set[int] = set()
    for places in batched([*outside, *([root] if len(outside) < len(directories) else ())], _PLACES_AT_ONCE):
        asked = overlap(*places)
        numbers.update(_others_at(tuple(asked)).scalars(connection, {**asked, "table_id": table.table_id}))
    return numbers


@cache
def _others_at(asked: tuple[str, ...]) -> Prepared:
    """Return the query for other tables at, in or around some places, or that have or had a partition there."""
    return Prepared(sa.union(*_others_around(asked)))


def _doomed(connection: sa.Connection, plan: WritePlan, table: Table, names: Collection[str]) -> Iterator[str]:
    """Yield the URIs of the files that the statement will delete."""
    unknown = dict(unknown_files(plan))
    for replaced in _replaced(connection, plan, table, names) if ends_files(plan) else ():
        places = {partition.partition_id: table.directory_of(partition) for partition in replaced}
        if isinstance(plan.change, CheckedDrop):
            asked = plan.change.asked
            places = {number: place for number, place in places.items() if rules.deletes(asked, table, place)}
        for partition in replaced:
            if partition.partition_id in places:
                found = unknown.pop(partition.name, ())
                yield from (f"{places[partition.partition_id]}/{removal.path}" for removal in found)
        yield from _living_files(connection, places)
    for name, found in unknown.items():
        yield from (f"{plan.locations.get(name) or table.directory(name)}/{removal.path}" for removal in found)


def _living_files(connection: sa.Connection, places: Mapping[int, str]) -> Iterator[str]:
    """Yield the URIs of partitions' current files; ``places`` gives the partitions' numbers and directories."""
    for number, there in living_files(connection, list(places)).items():
        yield from (f"{places[number]}/{file.path}" for file in there)


def _replaced(
    connection: sa.Connection, plan: WritePlan, table: Table, names: Collection[str]
) -> Iterator[Sequence[Partition]]:
    """Yield the current partitions that the statement replaces, in batches."""
    predicate = bound_predicate(plan, table)
    if predicate is None and not table.definition.keys:
        predicate = TRUE
    if predicate is None:
        named = by_values(connection, table, sorted(names), partitions.c.end_version == ALIVE)
        yield from batched(named, _PARTITIONS)
        return
    for numbers in batched(matching_numbers(connection, table, predicate), _PARTITIONS):
        yield living_of(connection, numbers)


def _refuse(plan: WritePlan, table: Table, users: Mapping[str, FileUser]) -> None:
    if not users:
        return
    uri, shown = _shown(users)
    user = users[uri]
    parameters = {"table": str(table.identifier), "location": uri, "other": user.table}
    if isinstance(plan.asked, Append):
        raise ConflictError(
            f"The file {uri}, which an overwrite of table {table.identifier} had replaced, belongs to {shown} since "
            "this write checked. Nothing was written; run the statement again.",
            parameters,
        )
    raise TableLayoutError(
        f"The statement would delete or move the file {uri} of table {table.identifier}: {shown} has it too, and would "
        f"lose its rows. Nothing was changed. {_remedy(plan, user)}",
        parameters,
    )


def _shown(users: Mapping[str, FileUser]) -> tuple[str, str]:
    """Return the first URI, and the partition or table that has this file, for an error message."""
    uri, user = min(users.items(), key=lambda each: each[0])
    return uri, f"partition {user.partition[:200]!r} of table {user.table}" if user.partition else f"table {user.table}"


def _remedy(plan: WritePlan, user: FileUser) -> str:
    # The message advises to copy the files: SET LOCATION moves no file, so with an empty directory the other table
    # would lose its rows.
    what = "partition" if user.partition else "table"
    others = (
        f"copy the other {what}'s files to a directory of its own and SET LOCATION to that, or unregister table "
        f"{user.table}"
    )
    if isinstance(plan.change, CheckedWrite) and plan.definition is None:
        return f"Set the table's 'overwrite-mode' to 'relocate', which leaves the file where it is, {others}."
    return f"To go on, {others}."


@dataclass(frozen=True, slots=True)
class DeletionClaim:
    """The files that a vacuum may delete.

    Attributes:
        transaction_id: The transaction that records the claimed files; None if no file could be claimed.
        users: The files that a current partition needs, with that partition: these are not claimed.
    """

    transaction_id: str | None
    users: Mapping[str, FileUser]


class Deletions(IndexPart):
    """The files that transactions must still delete, or that a vacuum is deleting."""

    def complete(self, transaction_id: str) -> None:
        """Complete the deferred delete of a committed write, so that all its removals and messages are recorded."""
        complete(self._database, transaction_id=transaction_id)

    def of(self, transaction_id: str) -> Iterator[Removal]:
        """Yield the files that a committed transaction must still delete, by absolute URI, a document at a time."""
        self.complete(transaction_id)
        for payload in documents(self._database, transaction_id, removal=True):
            yield from map(removal_from_json, json.loads(payload))

    def forget(self, transaction_id: str) -> None:
        """Remove a committed transaction's deletion list, and set the transaction's end to the time after the deletion.

        A registration that listed files before that time compares the files with the store again.
        """
        t = transaction_files.c
        done = sa.delete(transaction_files).where(t.transaction_id == transaction_id, t.removal == 1)
        mine = sa.update(transactions).where(transactions.c.transaction_id == transaction_id)

        def work(connection: sa.Connection) -> None:
            if connection.execute(done).rowcount:
                connection.execute(mine.values(ended_at_ms=now_ms(connection)))

        self._database.write(work)

    def claim(self, table: Table, removals: Sequence[Removal], owner: str, staging: str) -> DeletionClaim:
        """Claim for deletion the files that no current partition of any table has, under the lock of the table's row.

        Pass at most some thousands of files, because the lock is held all the time.
        """

        def work(connection: sa.Connection) -> DeletionClaim:
            row = lock_table(connection, table.table_id, str(table.identifier))
            users = users_within(connection, {removal.path for removal in removals})
            left = [removal for removal in removals if removal.path not in users]
            if not left:
                return DeletionClaim(None, users)
            is_inside = all(lies_inside(table, removal.path) for removal in left)
            deletes = DataDeletion.INSIDE if is_inside else DataDeletion.ALL
            claim = insert_deletion(
                connection, table.table_id, str(table.identifier), table.definition.location, deletes,
                operation=VACUUM, state=State.COMMITTED, owner=owner, staging=staging,
                version=row.table.version, now_ms=row.now_ms,
            )  # fmt: skip
            files = RecordedDeletions(connection, claim)
            for removal in left:
                files.add(removal)
            files.flush()
            return DeletionClaim(claim, users)

        return self._database.write(work)
