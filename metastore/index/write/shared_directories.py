"""Directories that several partitions of one table have: a statement on one partition deletes files of the others.

The claims of statements do not show this, since they name partitions and not directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.schema import ALIVE, partitions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 500


def require_undisturbed(
    connection: sa.Connection, table: Table, base_version: int, directories: Mapping[str, str]
) -> None:
    """Return if no other partition that has, or had, one of the directories has changed since a version.

    Nothing is asked where the table has not changed since.

    Args:
        connection: Holds the lock of the table's row.
        table: At the version that registers files.
        base_version: A version from before the files were listed.
        directories: By partition, those in which files are registered.

    Raises:
        DeletedFilesError: One has changed, and its statement may have deleted or moved files. Nothing was changed.
    """
    if table.version == base_version + 1 or not directories:
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
    """Yield the directories of which another partition's row has ended since the version, each with its name."""
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
