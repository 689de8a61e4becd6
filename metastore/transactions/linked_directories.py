"""Directories of partitions that are symbolic links into another table's directory: its files are not ours to touch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.storage.locations import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.storage.locations import Location


def refuse_linked(index: Index, table: str, root: Location, directories: Mapping[str, Location]) -> None:
    """Return if no link leads from a partition into a table that does not share files with the whole table anyhow.

    The index is asked only where there are links.

    Args:
        index: The index.
        table: The table's name.
        root: Its directory.
        directories: Where its partitions are whose files come or go, by their names.

    Raises:
        TableLayoutError: One does; nothing was changed.
    """
    if root.scheme != "file":
        return
    linked = _linked(root, directories)
    if not linked or not _others(index, table, os.path.commonpath(linked.values())):
        return
    known = set(_others(index, table, root.path))
    for name, place in sorted(linked.items()):
        other = next((one for one in _others(index, table, place) if one not in known), None)
        if other is not None:
            raise TableLayoutError(
                f"The directory {shown(str(directories[name]))} of partition {shown(name)} of table {table} is a link "
                f"to {shown(place)}, which lies in table {other}: the files of both would be mixed, and be deleted "
                "together. Nothing was changed. Remove the link (the files stay), then repair the table or run the "
                "statement again.",
                {"table": table, "partition": name[:200], "location": place, "other": str(other)},
            )


def _linked(root: Location, directories: Mapping[str, Location]) -> dict[str, str]:
    """Return where the partitions really are that links lead to, the way to the table itself apart."""
    real_root = os.path.realpath(root.path)
    linked: dict[str, str] = {}
    for name, directory in directories.items():
        if directory.scheme != "file":
            continue
        inside = directory != root and root.contains(directory)
        straight = os.path.join(real_root, directory.relative_to(root)) if inside else directory.path
        real = real_root if directory == root else os.path.realpath(directory.path)
        if directory != root and real != straight:
            linked[name] = real
    return linked


def _others(index: Index, table: str, place: str) -> list[TableIdentifier]:
    return [one for one in index.tables.overlapping(f"file://{place}") if str(one) != table]
