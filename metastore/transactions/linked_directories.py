"""Refuses writes to a partition's directory that another partition has, too, by a link or by a name in another case."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.storage.locations import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.storage.locations import Location

logger = logging.getLogger(__name__)


def refuse_linked(
    index: Index, table: str, root: Location, directories: Mapping[str, Location], *, by_case: bool = True
) -> None:  # fmt: skip
    """Check that no partition's directory is a link into another table, or another partition's in another case.

    A link to a table that has the same folder as this one is allowed. The index is read only if there are links.

    ``directories``: the directories of the partitions whose files the write adds or removes, by partition name.
    ``by_case``: False to check only links.

    Raises:
        TableLayoutError: Two partitions share a directory; nothing was changed.
    """
    if root.scheme != "file":
        return
    if by_case:
        refuse_other_case(table, root, directories)
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


def refuse_other_case(table: str, root: Location, directories: Mapping[str, Location]) -> None:
    """Check that no two default directories are the same directory on a file system that ignores case.

    ``k=a`` and ``k=A`` are two partitions. If they share a directory, an overwrite or DROP of one deletes the other's
    files.

    Raises:
        TableLayoutError: A directory belongs to another partition; nothing was changed.
    """
    if root.scheme != "file":
        return
    default = {name: place.path for name, place in directories.items() if place == root.join(name)}
    spelled: dict[str, str] = {}
    for name, path in sorted(default.items()):
        other = spelled.setdefault(name.lower(), name)
        if other == name and os.path.lexists(path):
            other = _name_on_disk(root.path, name)
        elif other != name and not _ignores_case(root.path):
            continue
        if other != name:
            raise TableLayoutError(
                f"The directory {shown(path)} of partition {shown(name)} of table {table} is also that of "
                f"{shown(other)}: the file system does not distinguish case, so that the files of both would be mixed, "
                "and be deleted together. Nothing was changed. Use values that differ by more than case, or move the "
                "table to a file system that distinguishes case.",
                {"table": table, "partition": name[:200], "location": path, "other": other[:200]},
            )


def sharing_by_case(root: Location, directories: Mapping[str, Location], staying: Iterable[str]) -> set[str]:
    """Return the dropped partitions whose default directory is also the directory of a partition that stays.

    This happens only on a file system that ignores case, where ``k=a`` and ``k=A`` are one directory.

    Args:
        root: The table's directory.
        directories: The directories of the dropped partitions, by name.
        staying: The names of the table's partitions in default directories.
    """
    if root.scheme != "file" or not _ignores_case(root.path):
        return set()
    twins = {name.lower() for name in staying if name not in directories}
    return {name for name, place in directories.items() if place == root.join(name) and name.lower() in twins}


def refuse_mixed_drop(table: str, directories: Mapping[str, Location], shared: Collection[str]) -> None:
    """Check that a DROP does not mix partitions that share a directory, whose files it keeps, with other partitions.

    Raises:
        TableLayoutError: The statement also drops partitions whose files it would delete; nothing was changed.
    """
    first = min(shared)
    other = next((name for name in sorted(directories) if name not in shared), None)
    if other is not None:
        raise TableLayoutError(
            f"The directory {shown(str(directories[first]))} of partition {shown(first)} of table {table} is also that "
            "of a partition that stays, as the file system does not distinguish case. Nothing was changed. Drop "
            f"{shown(first)} by a statement of its own, which keeps the files; {shown(other)} goes with its files.",
            {"table": table, "partition": first[:200], "other": other[:200]},
        )
    logger.warning(
        "The files of partition %s of table %s stay: another partition has its directory, as the file system does not "
        "distinguish case",
        shown(first), table,
    )  # fmt: skip


def _ignores_case(path: str) -> bool:
    """Return whether the file system ignores case, by looking up an ancestor's name with swapped case."""
    while path != "/":
        path, name = os.path.split(path)
        other = name.swapcase()
        if other != name:
            return os.path.lexists(f"{path}/{other}") and other not in os.listdir(path)
    return False


def _name_on_disk(root: str, name: str) -> str:
    """Return the name of an existing directory as the file system lists it, which may differ in case.

    Directories are listed only on file systems that ignore case.
    """
    place, found = root, []
    for part in name.split("/"):
        entries = os.listdir(place) if os.path.lexists(f"{place}/{part.swapcase()}") else [part]
        found.append(part if part in entries else next((one for one in entries if one.lower() == part.lower()), part))
        place = f"{place}/{part}"
    return "/".join(found)


def _linked(root: Location, directories: Mapping[str, Location]) -> dict[str, str]:
    """Return the real paths of partitions whose directories are links; links in the table's own path do not count."""
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
