"""Checks of the table and of the partitions that get files, made by a reservation and again by its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import Create, Replace
from catalog_ext.metastore.commit.transaction import NOT_READ
from catalog_ext.metastore.errors import (
    ConflictError,
    PartitionDescriptorError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.database.schema import partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.tables.table_rows import find_relation
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError, require_unclaimed
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import Creation, WritePlan
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table


def require_in_place(plan: WritePlan, table: Table, partition: Partition) -> None:
    """Check that an existing partition is still in the directory in which the write puts its files.

    Raises:
        ConflictError: A DDL has changed the partition's location since the write began.
    """
    if table.directory_of(partition) != plan.directory(partition.name):
        shown = partition.name[:200]
        raise ConflictError(
            f"Partition {shown!r} of table {table.identifier} has got another location since the write began. Nothing "
            "was written; read again and retry.",
            {"table": str(table.identifier), "partition": shown},
        )


def require_own_format(table: Table, partition: Partition) -> None:
    """Check that an existing partition has its table's format and schema, so that rows can be added to it.

    Raises:
        PartitionDescriptorError: The partition has another format or schema than the table.
    """
    if partition.descriptor is not None:
        shown = partition.name[:200]
        raise PartitionDescriptorError(
            f"Rows cannot be added to partition {shown!r} of table {table.identifier}: its files are of another "
            "format, or have other columns, than its table. Nothing was written. INSERT OVERWRITE the partition with "
            "all of its rows, which gives it the table's format.",
            {"table": str(table.identifier), "partition": shown},
        )


def check_name(
    connection: sa.Connection, row: Mapping[str, Any], asked: Creation, *, reserved: bool = False
) -> int | None:
    """Check the name of a table to be created; return the number of the table that is replaced, or None.

    ``connection`` holds the lock of the namespace, and ``row`` is the transaction's. With ``reserved`` (in the commit)
    the replaced table may have a newer version than the base version, since the reservation has compared them: since
    then the claim on the table stops other statements, and files that a repair registers stay for the new table.

    Raises:
        TableAlreadyExistsError: A table has the name, and must not be replaced.
        TableNotFoundError: There is no table to replace.
        ConflictError: Another table got the name meanwhile, or the replaced table is gone or has changed since the
            creation's rows were read from it.
    """
    shown = row["table_name"]
    there = find_relation(connection, TableIdentifier.parse(shown))
    current = None if there is None else there.table_id
    if isinstance(asked, Create) and current is not None:
        raise TableAlreadyExistsError(
            f"The table {shown} exists already. Choose another name, or use CREATE OR REPLACE TABLE.", {"table": shown}
        )
    if isinstance(asked, Replace) and current is None:
        raise TableNotFoundError(f"The table {shown} does not exist in the index.", {"table": shown})
    if not isinstance(asked, Create) and current != row["replaces"]:
        raise ConflictError(
            f"The table {shown} was created, replaced or dropped by another statement meanwhile. Nothing was written; "
            "retry.",
            {"table": shown},
        )
    base = row["base_version"]
    if current is None or base == NOT_READ:
        return current
    # Lock the table: a concurrent commit to it either comes first, and is seen here, or waits and finds the table
    # replaced.
    version = lock_table(connection, current, shown).table.version
    if version != base and not reserved:
        raise ConflictError(
            f"The table {shown} has changed since this statement read it at version {base}, and would be replaced "
            "without the change. Nothing was written; run the statement again.",
            {"table": shown, "version": str(base)},
        )
    return current


_AT_ONCE = 500


def require_registrable(
    connection: sa.Connection, table: Table, added: Callable[[], Iterable[tuple[str, str, Sequence[DataFile]]]],
    base_version: int | None, transaction_id: str = "", listed_at_ms: int | None = None,
) -> None:  # fmt: skip
    """Check that files of other writers can be registered: no statement deletes them, or has since they were listed.

    Args:
        connection: A connection that holds the lock of the table's row.
        table: The table, at the version that registers the files.
        added: Returns the names of partitions, each with its directory and its new files. It is called only if there is
            something to compare with, because a load has millions of files.
        base_version: A version from before the files were listed; with None there is no comparison with other
            partitions.
        transaction_id: The transaction that registers the files; empty without one.
        listed_at_ms: A time before the files were listed, by the database's clock; None for the time when the
            transaction began.

    Raises:
        DeletedFilesError: A file is being deleted, or may have been since it was listed. Nothing is changed.
        RetryAfter: A deferred delete has not recorded all its files yet.
    """
    require_unclaimed(connection, table, added, transaction_id, listed_at_ms)
    if base_version is not None and table.version != base_version + 1:
        _require_undisturbed(connection, table, base_version, {name: place for name, place, files in added() if files})


def _require_undisturbed(
    connection: sa.Connection, table: Table, base_version: int, directories: Mapping[str, str]
) -> None:
    """Check that no other partition that has, or had, one of the directories has changed since a version.

    The statement that changed it may have deleted or moved files there. The claims of statements do not show this,
    since they name partitions and not directories.

    Raises:
        DeletedFilesError: Another partition in one of the directories has changed.
    """
    if not directories:
        return
    changed = dict(_changed(connection, table, base_version, directories))
    if not changed:
        return
    place, name = min(changed.items())
    shown = name[:200]
    refused = ConflictError(
        f"Partition {shown!r} of table {table.identifier} lies at {place} too, and has changed since the files there "
        "were listed: some of them may have been deleted. Nothing was registered; run the statement again.",
        {"table": str(table.identifier), "partition": shown, "location": place},
    )
    why = f"a statement on partition {shown!r} of table {table.identifier} may have deleted files at {place}"
    raise DeletedFilesError.of(refused, changed, why, has_ended=True)


def _changed(
    connection: sa.Connection, table: Table, base_version: int, directories: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the directories in which another partition was changed or dropped since the version, each with its name."""
    p = partitions.c
    ended = sa.select(p.name, p.location).where(
        p.table_id == table.table_id, p.end_version > base_version, p.end_version < ALIVE
    )
    names = {place: name for name, place in directories.items()}
    for row in connection.execute(ended.where(p.location.is_not(None))):
        if names.get(row.location, row.name) != row.name:
            yield row.location, row.name
    root = f"{table.definition.location}/"
    defaults = {
        place.removeprefix(root): place
        for name, place in directories.items()
        if place.startswith(root) and place != f"{root}{name}"
    }
    for some in batched(sorted(defaults), _AT_ONCE):
        hashes = [name_hash(name) for name in some]
        for row in connection.execute(ended.where(p.location.is_(None), p.name_hash.in_(hashes))):
            yield defaults[row.name], row.name
