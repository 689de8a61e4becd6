"""Reads single partitions from the store and the index into the scratch database, each at its own location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.scan.location_listing import list_locations
from catalog_ext.scan.observe import OF_FILES, OF_PARTITIONS, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Scratch

_NAMED_AT_ONCE = 500

LOST = "neither the metastore has it nor is anything at its place: it stays as it is registered, until a repair"
"""The reason for a partition that is not changed: no drop of it is known, and its store may not be available."""


def observe_named(
    index: Index,
    storage: Storage,
    table: Table,
    names: Sequence[str],
    scratch: Scratch,
    *,
    places: Mapping[str, str | None] | None = None,
    gone: Collection[str] = (),
    lost: Collection[str] = (),
    must_lie: bool = False,
) -> None:
    """Read single partitions from the store and the index into the scratch database; each is listed at its location.

    Args:
        index: The index.
        storage: The stores.
        table: The table, at its version.
        names: The partitions.
        scratch: Gets the rows of both sides.
        places: The locations (None: below the table's location) of partitions that exist, even if their locations are
            empty.
        gone: Partitions that were dropped in the metastore; they are not listed.
        lost: Partitions of ``places`` that are not changed if nothing is found at their locations.
        must_lie: Whether all of ``places`` are treated like ``lost``.
    """
    located = _copy_registered(index, table, names, scratch)
    if places:
        moved = {n: at for n, at in places.items() if table.directory(n, at) != table.directory(n, located.get(n))}
        scratch.insert("places", ((n, table.directory(n, at)) for n, at in moved.items()))
        located |= moved
    scratch.insert("ended", ((name,) for name in gone))
    looked_for = ((n, table.directory(n, at)) for n, at in located.items() if n not in gone)
    list_locations(storage, looked_for, scratch, IgnoredNames.of(table.definition.properties))
    _leave_out_lost(scratch, lost)
    if must_lie:
        _leave_out_missing(storage, scratch, {name: table.directory(name, located[name]) for name in places or ()})
    if places and storage.store_has_directories(table.definition.location):
        _suspect_vanished(storage, table, located, scratch)
    scratch.insert("listed_partitions", ((name,) for name in places or ()))
    scratch.execute("DELETE FROM listed_partitions WHERE name IN (SELECT name FROM protected)")


def _copy_registered(index: Index, table: Table, names: Sequence[str], scratch: Scratch) -> dict[str, str | None]:
    """Copy registered partitions into the scratch database; return their explicit locations, None for the default."""
    located: dict[str, str | None] = dict.fromkeys(names)
    for some in batched(names, _NAMED_AT_ONCE):
        ids: list[int] = []
        for batch in index.partitions.named(table, some):
            rows = rows_of(batch, OF_PARTITIONS)
            located.update(row[:2] for row in rows)
            scratch.insert("indexed_partitions", rows)
            ids.extend(batch.column("partition_id").to_pylist())
        for batch in index.files.known(table, None, ids) if ids else ():
            scratch.insert("indexed_files", rows_of(batch, OF_FILES))
    return located


def _leave_out_lost(scratch: Scratch, lost: Collection[str]) -> None:
    """Report the partitions in ``lost`` that the store lacks too, and exclude them from the comparison."""
    scratch.insert("lost", ((name,) for name in lost))
    nowhere = (
        "name IN (SELECT name FROM lost) AND name NOT IN (SELECT name FROM listed_partitions)"
        " AND name NOT IN (SELECT directory FROM failures)"
    )
    scratch.execute(
        f"INSERT OR IGNORE INTO skipped SELECT name, name, files, bytes, '{LOST}' FROM indexed_partitions"
        f" WHERE {nowhere} AND files > 0"
    )
    scratch.execute(f"INSERT OR IGNORE INTO protected SELECT name FROM indexed_partitions WHERE {nowhere}")
    scratch.leave_out("SELECT name FROM protected", "indexed")


def _leave_out_missing(storage: Storage, scratch: Scratch, directories: Mapping[str, str]) -> None:
    """Report partitions whose locations do not exist, and exclude them from the comparison."""
    known = "SELECT name FROM listed_partitions UNION SELECT directory FROM failures"
    there = {name for (name,) in scratch.rows(known)}
    missing = {n: at for n, at in directories.items() if n not in there and storage.store_has_directories(at)}
    rows = ((name, name, 0, 0, f"nothing lies at {at}, where the metastore has it") for name, at in missing.items())
    scratch.insert("skipped", rows)
    scratch.insert("protected", ((name,) for name in missing))
    scratch.leave_out("SELECT name FROM protected", "indexed")


def _suspect_vanished(storage: Storage, table: Table, located: Mapping[str, str | None], scratch: Scratch) -> None:
    """Record partitions without files as failures if the table's own location is missing: the store may not be mounted.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    root = table.definition.location
    vanished = scratch.rows(
        "SELECT name FROM indexed_partitions WHERE files > 0 AND name NOT IN (SELECT name FROM listed_partitions)"
        " AND name NOT IN (SELECT name FROM ended) AND name NOT IN (SELECT directory FROM failures)"
    )
    here = [name for (name,) in vanished if table.directory(name, located[name]).startswith(f"{root}/")]
    if here and storage.stat(root) is None:
        why = f"the table's location {root} is not there; look whether the store is mounted and whole"
        scratch.insert("failures", ((name, why) for name in here))
