"""The deletion gate for registrations: no file is registered that a transaction is deleting or moving.

The transactions are found by the paths of their files and not by their tables: two tables may share a directory, and a
table may have been unregistered and registered again since.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.claims import replaced_by
from catalog_ext.metastore.commit.partition_plans import CheckedDrop, CheckedRollback
from catalog_ext.metastore.commit.plan import CheckedWrite, OverwritePartitions
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.errors import ConflictError, TableNotFoundError
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import transaction_claims, transaction_files, transactions
from catalog_ext.metastore.index.read.partitions import partitions_at_within
from catalog_ext.metastore.index.read.spellings import other_spellings
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.dropped import any_undeleted, being_deleted, hold_tables
from catalog_ext.metastore.index.write.deferred_deletes import require_write_complete
from catalog_ext.metastore.index.write.deletion_checks import ends_files, tables_near, unknown_files
from catalog_ext.metastore.index.write.transaction_files import documents_within, staged_within
from catalog_ext.metastore.index.write.transaction_rows import MOVES, from_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import DataFile, Table

    Files = Mapping[str, Mapping[str, DataFile]]
    """Files by directory and name."""

_T = transactions.c

_ENDED = (State.FINISHED, State.ABORTED)
_MOVING = (State.RESERVED, State.ABORTING, State.ABORTED)
"""States in which a moved file may disappear from its target again."""
_APPENDS = '%"kind":"append"%'
"""A pattern for the plans of appends. They delete no file that another table could register, except files that they
move, and leftovers of relocating overwrites in the directories of new partitions."""
_DELETES_NOTHING = '%"removes":{}%'


class DeletedFilesError(ConflictError):
    """Files to be registered are being deleted or moved, or may have been deleted since they were listed.

    Attributes:
        directories: The directories with such files; if the statement has ended, the listed directories near its table.
        has_ended: Whether the statement has ended or was undone: then a new listing shows the remaining files.
        deletion: A text that names the statement and the file.
    """

    directories: Collection[str] = ()
    has_ended = False
    deletion = ""

    @classmethod
    def of(
        cls, refused: ConflictError, directories: Collection[str], deletion: str, *, has_ended: bool
    ) -> DeletedFilesError:
        """Return this error with the message of ``refused`` and the given attributes."""
        error = cls(refused.message, refused.parameters)
        error.directories = frozenset(directories)
        error.deletion = deletion
        error.has_ended = has_ended
        return error


_OWN = transactions.alias("own")
_BEGAN = sa.select(_OWN.c.began_at_ms).where(_OWN.c.transaction_id == sa.bindparam("mine")).scalar_subquery()
_SINCE = sa.func.coalesce(sa.bindparam("listed_at_ms", type_=sa.BigInteger()), _BEGAN)
"""A time before the files were listed; without a given time, the begin of the registering transaction."""
_IS_OTHERS = sa.func.coalesce(_T.table_id, 0) != sa.bindparam("table_id")
_ENDED_SINCE = _T.ended_at_ms >= _SINCE
_MAY_HAVE_DELETED = sa.and_(_ENDED_SINCE, sa.or_(_IS_OTHERS, _T.operation == VACUUM))
"""The condition for an ended transaction that may have deleted listed files. Statements on the same table are left out,
since they show in the versions of its partitions; except vacuum, which makes no version."""


def _deleting() -> sa.Select[Any]:
    """Return the query of transactions that delete or move files, or did so since the registration listed its files.

    A finished transaction no longer has its list of files, so a command that listed the directory before the deletion
    could register files that are gone. An aborted transaction has moved files back from the listed places. A
    transaction's lease (``expires_at_ms``) never ends before the transaction: the condition on it is redundant, but
    lets the database use its index.
    """
    ended = (_T.expires_at_ms >= _SINCE, _ENDED_SINCE)
    deletes = sa.or_(~_T.plan.like(_APPENDS), _T.plan.like(MOVES), ~_T.plan.like(_DELETES_NOTHING))
    return sa.select(transactions).where(
        _T.transaction_id != sa.bindparam("mine"),
        sa.or_(
            _T.state == str(State.COMMITTED),
            sa.and_(_T.state.in_([str(State.RESERVED), str(State.ABORTING)]), _IS_OTHERS),
            sa.and_(_T.state == str(State.FINISHED), *ended, _MAY_HAVE_DELETED, deletes),
            sa.and_(_T.state == str(State.ABORTED), *ended, _T.plan.like(MOVES)),
        ),
    )


_DELETING = Prepared(_deleting())
_FORGOTTEN = Prepared(
    sa.select(_T.transaction_id).where(
        _T.transaction_id == sa.bindparam("other"),
        _MAY_HAVE_DELETED,
        ~sa.exists().where(transaction_files.c.transaction_id == _T.transaction_id, transaction_files.c.removal == 1),
    )
)
"""The query of a transaction that has deleted files since they were listed, and whose list of deletions is removed."""


def require_unclaimed(
    connection: sa.Connection, table: Table, added: Callable[[], Iterable[tuple[str, str, Sequence[DataFile]]]],
    transaction_id: str = "", listed_at_ms: int | None = None,
) -> None:  # fmt: skip
    """Check that no transaction is deleting or moving a file to be registered, or may have since it was listed.

    The arguments are those of ``reservation_checks.require_registrable``.

    Raises:
        DeletedFilesError: A transaction deletes or moves such a file, or may have. Nothing is changed.
        RetryAfter: A deferred delete has not recorded all its files yet.
    """
    asked = {"mine": transaction_id, "table_id": table.table_id, "listed_at_ms": listed_at_ms}
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite and not _DELETING.rows(connection, asked) and not any_undeleted(connection):
        # Nothing deletes files now. SQLite has one writer at a time, so no deletion can begin before this transaction
        # ends.
        return
    found: dict[str, dict[str, DataFile]] = {}
    for _, directory, files in added():
        if files:
            found.setdefault(directory, {}).update((file.path, file) for file in files)
    if not found:
        return
    spellings = other_spellings(connection, list(found)).items()
    own_names = {spelled: directory for directory, others in spellings for spelled in others}
    found = {**{other: found[directory] for other, directory in own_names.items()}, **found}
    if not is_sqlite:
        # On SQLite no lock is needed, because only one process writes at a time. On other databases the lock has this
        # effect: a statement that reserves the deletion of these files either commits before this transaction, and is
        # found below, or waits for its end and then finds the files registered.
        hold_tables(connection, tables_near(connection, table, found))
    _require_undropped(connection, table, found, own_names)
    ended: list[tuple[Transaction, dict[str, str]]] = []
    for other, there in _deletions(connection, asked, found):
        taken = {own_names.get(at, at): uri for at, uri in there.items()}
        if other.state not in _ENDED:
            raise _refusal(table, other, taken)
        ended.append((other, taken))
    if ended:
        # Report the directories of all ended statements in one error: the caller lists all of them again at once.
        raise _refusal(table, ended[0][0], {place: uri for _, taken in ended for place, uri in taken.items()})


def _deletions(
    connection: sa.Connection, asked: Mapping[str, Any], found: Files
) -> Iterator[tuple[Transaction, dict[str, str]]]:
    """Yield the transactions that delete or move files in the directories, or may have, each with its ``_taken``."""
    for row in _DELETING.rows(connection, asked):
        other, replaces = from_row(row), row["replaces"]
        if other.state is State.RESERVED and replaces == asked["table_id"]:
            # A REPLACE TABLE that is reserved does not delete files that a repair of the replaced table registers from
            # now on. They stay for the new table.
            continue
        taken = _taken(connection, other, replaces, found)
        if not taken and other.state is State.COMMITTED and _is_forgotten(connection, asked, other, found):
            other = replace(other, state=State.FINISHED)
            taken = _taken(connection, other, replaces, found)
        if taken:
            yield other, taken


def _is_forgotten(
    connection: sa.Connection, asked: Mapping[str, Any], other: Transaction, directories: Collection[str]
) -> bool:
    """Return whether a committed transaction's list of deletions was removed, perhaps before this transaction read it.

    A clean-up takes no lock on a table: it may end, or fail at a policy after its deletions, at any moment.
    """
    if not any(map(other.plan.may_delete_near, directories)):
        return False
    return bool(_FORGOTTEN.rows(connection, {**asked, "other": other.transaction_id}))


def _refusal(table: Table, other: Transaction, taken: Mapping[str, str]) -> DeletedFilesError:
    directory = min(taken.values())
    refused = ConflictError(
        f"The {other.operation} {other.transaction_id} of table {other.table} is deleting or moving {directory}, "
        f"or has just done so: table {table.identifier} cannot register it now. Try again "
        "when that statement has ended. If its process is gone, `catalog-ext recover --older-than 0s` "
        "finishes it.",
        {"table": str(table.identifier), "location": directory, "transaction": other.transaction_id},
    )
    deletion = f"the {other.operation} {other.transaction_id} of table {other.table} deletes or moves {directory}"
    return DeletedFilesError.of(refused, taken, deletion, has_ended=other.state in _ENDED)


def _require_undropped(
    connection: sa.Connection, table: Table, directories: Collection[str], own_names: Mapping[str, str]
) -> None:
    """Check that no directory outside of the table's own lies in the directory of a dropped table to be deleted.

    Raises:
        DeletedFilesError: A directory lies in a dropped table's directory. Nothing is changed.
    """
    root = table.definition.location
    outside = [place for place in directories if place != root and not place.startswith(f"{root}/")]
    found = being_deleted(connection, outside)
    if not found:
        return
    name, dropped = min(found.items(), key=lambda each: each[0])
    place = own_names.get(name, name)
    refused = ConflictError(
        f"Table {table.identifier} cannot register files at {place}: the files of table {dropped.name}, which was "
        f"dropped, are being deleted at {dropped.location}. Try again when that has ended. If its process is gone, "
        "`catalog-ext recover --older-than 0s` deletes the rest.",
        {"table": str(table.identifier), "location": place},
    )
    deletion = f"the DROP TABLE of {dropped.name} deletes the files at {dropped.location}"
    raise DeletedFilesError.of(refused, {own_names.get(at, at) for at in found}, deletion, has_ended=False)


def _taken(connection: sa.Connection, other: Transaction, replaces: int | None, found: Files) -> dict[str, str]:
    """Return the directories with files that the transaction deletes or moves, each with the URI of such a file."""
    taken: dict[str, str] = {}
    if other.state is State.COMMITTED:
        taken = _removed(connection, other, found)
    elif other.state is State.FINISHED:
        taken = _was_near(other.plan, replaces, found)
    elif other.state is State.RESERVED and other.plan.definition is not None:
        taken = _to_be_replaced(connection, other.plan, replaces, found)
    elif other.state is State.RESERVED:
        taken = _to_be_removed(connection, other, found)
    # LOAD DATA moves the user's files before it commits, from directories that its plan does not name.
    moves = other.plan.moves_user_files or (other.plan.moves and other.state in _MOVING)
    return {**_moved(connection, other, found), **taken} if moves else taken


def _moved(connection: sa.Connection, other: Transaction, found: Files) -> dict[str, str]:
    """Return the directories from or to which the transaction moves or has moved files, each with a file's URI."""
    taken: dict[str, str] = {}
    for file in staged_within(connection, other.transaction_id):
        target = f"{other.plan.directory(file.partition)}/{file.name}"
        # An aborted transaction has moved the files back to their sources, where they can be registered.
        sources = [] if other.state is State.ABORTED or file.source is None else [file.source]
        for uri in (*sources, *([target] if other.state in _MOVING else ())):
            directory, _, name = uri.rpartition("/")
            if name in found.get(directory, ()):
                taken.setdefault(directory, uri)
    return taken


def _was_near(plan: WritePlan, replaces: int | None, found: Files) -> dict[str, str]:
    """Return the directories in which a finished transaction may have deleted files after they were listed."""
    deletes = ends_files(plan) or unknown_files(plan) or plan.moves_user_files
    if not (deletes or (plan.definition is not None and replaces is not None)):
        return {}
    return {place: f"{place}/{min(found[place])}" for place in found if plan.may_delete_near(place)}


def _to_be_replaced(connection: sa.Connection, plan: WritePlan, replaces: int | None, found: Files) -> dict[str, str]:
    """Return the directories of partitions whose files a REPLACE TABLE will delete with the replaced table."""
    table = _table(connection, replaces)
    if table is None or rules.keeps_files(table, plan):
        return {}
    places = partitions_at_within(connection, table, list(found))
    return {place: f"{place}/{min(found[place])}" for place in places if rules.goes_with_table(table, place)}


def _removed(connection: sa.Connection, other: Transaction, found: Files) -> dict[str, str]:
    """Return the directories with files that the committed transaction has recorded for deletion."""
    taken: dict[str, str] = {}
    if not any(map(other.plan.may_delete_near, found)):
        return taken
    require_write_complete(connection, other.transaction_id)
    for payload in documents_within(connection, other.transaction_id, removal=True):
        for removal in map(removal_from_json, json.loads(payload)):
            directory, _, name = removal.path.rpartition("/")
            file = found.get(directory, {}).get(name)
            if file is None:
                continue
            # Do not compare the time: for an uploaded object without a recorded ETag the index may have the commit's
            # time instead of the object's own.
            modified_ms = None if directory.startswith("s3a:") and removal.etag is None else file.modified_ms
            if removal.is_still(file.size, modified_ms, file.etag):
                taken.setdefault(directory, removal.path)
    return taken


def _to_be_removed(connection: sa.Connection, other: Transaction, found: Files) -> dict[str, str]:
    """Return the directories of partitions whose files the reserved transaction will delete."""
    plan, change = other.plan, other.plan.change
    if not isinstance(change, CheckedWrite | CheckedDrop | CheckedRollback):
        return {}
    table = _table(connection, other.table_id)
    if table is None:
        return {}
    taken: dict[str, str] = {}
    for name, removals in unknown_files(plan).items():
        place = plan.locations.get(name) or table.directory(name)
        for removal in removals:
            if removal.path in found.get(place, {}):
                taken.setdefault(place, f"{place}/{removal.path}")
    if isinstance(change, CheckedRollback) or (isinstance(change, CheckedWrite) and plan.relocate):
        return taken
    is_replaced = _replaced(connection, other, table)
    for place, names in partitions_at_within(connection, table, list(found)).items():
        deletes = not isinstance(change, CheckedDrop) or rules.deletes(change.asked, table, place)
        if deletes and any(is_replaced(name) for name in names):
            taken.setdefault(place, f"{place}/{min(found[place])}")
    return taken


def _table(connection: sa.Connection, table_id: int | None) -> Table | None:
    """Return a table that a transaction writes.

    None if the table is gone: then the transaction's commit fails, and it deletes only files that it has written
    itself.
    """
    try:
        return None if table_id is None else table_rows.load_row_by_id(connection, table_id).table
    except TableNotFoundError:
        return None


def _replaced(connection: sa.Connection, other: Transaction, table: Table) -> Callable[[str], bool]:
    if other.plan.definition is not None:
        return lambda _: True
    if not isinstance(other.plan.asked, OverwritePartitions):
        return replaced_by(other.plan, table)
    c = transaction_claims.c
    named = sa.select(c.name).where(c.transaction_id == other.transaction_id, c.table_id == table.table_id)
    return set(connection.execute(named).scalars()).__contains__
