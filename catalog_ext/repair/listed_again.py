"""Looks again at files that were listed before a statement near them deleted some.

``registration_checks`` refuses to register such files. The store says which of them are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.model.changes import AddPartition, ReplaceFiles
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import is_same_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
    from catalog_ext.metastore.model.changes import Change
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage


def partitions_to_leave(
    index: Index, storage: Storage, table: Table, changes: Sequence[Change], error: DeletedFilesError
) -> set[str]:
    """Return the partitions that cannot be registered as they were listed.

    Where the statement is still deleting, these are all with its files. Where it has ended, the store is asked: those
    whose files are all there, as they were listed, can be registered.

    Args:
        index: The index.
        storage: The stores.
        table: The table that gets the files.
        changes: What was refused.
        error: Why.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    adding = [change for change in changes if isinstance(change, AddPartition | ReplaceFiles)]
    registered = index.partitions.locations(
        table, [change.name for change in adding if isinstance(change, ReplaceFiles)]
    )
    places = {c.name: table.directory(c.name, c.location or registered.get(c.name)) for c in adding}
    near = {name for name, place in places.items() if place in error.directories}
    if not error.has_ended:
        return near
    listed = [
        (change.name, Removal(f"{places[change.name]}/{file.path}", file.size, file.modified_ms))
        for change in adding
        if change.name in near
        for file in (change.files if isinstance(change, AddPartition) else change.added)
    ]
    there = storage.stat_many([Location.parse(file.path) for _, file in listed])
    return {
        name
        for (name, file), entry in zip(listed, there, strict=True)
        if entry is None or not is_same_file(entry, file)
    }
