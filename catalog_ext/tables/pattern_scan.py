"""Scans a location with wildcards before it is registered: its partition columns, and a sample of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.model.tables import Column
from catalog_ext.scan.location_pattern import PatternLayout
from catalog_ext.scan.path_keys import Pruner, keys_of, kinds_of_keys, partition_name
from catalog_ext.scan.walk import Walk
from catalog_ext.tables.location_scan import LocationContents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.location_pattern import LocationPattern
    from catalog_ext.scan.walk_states import FoundFile

_SHOWN = 3


def scan_pattern(
    storage: Storage, definition: TableDefinition, pattern: LocationPattern, sample_files: int | None, *, keys: bool
) -> LocationContents:
    """Return what the files that a table's location matches have in common.

    Args:
        storage: Where they are.
        definition: The table, by the user's words.
        pattern: Its location.
        sample_files: How many files the sample is to have at most; None for all.
        keys: Whether the definition has the partition columns; otherwise they are the keys of the matched paths.

    Raises:
        PathNotFoundError: Nothing lies at some of the paths that it names, or there is no file; the message lists them.
        TableLayoutError: The files disagree on the keys, or none has those that are given.
        StorageError: The store refuses or does not answer.
    """
    matches = Walk(storage, list(pattern.alternatives), Pruner(None)).run()
    matches.check(pattern.text, list(pattern.alternatives))
    layout = PatternLayout(definition, pattern)
    files = sorted(f for f in matches.files.values() if not layout.ignores(pattern.relative(f.location)))
    columns = definition.partition_columns
    if keys:
        files = _conforming(definition, pattern, files)
    else:
        columns = tuple(Column(name, "string") for name in _agreed_keys(definition, files))
    wanted = len(files) if sample_files is None else min(sample_files, len(files))
    # In equal distances, so that every part of the tree has its say.
    sample = [files[number * len(files) // wanted] for number in range(wanted)]
    return LocationContents(columns, [(file.location, file.size) for file in sample], len(files))


def _agreed_keys(definition: TableDefinition, files: Sequence[FoundFile]) -> list[str]:
    """Return the keys that all paths have, in the order that they have in the first."""
    directories = list(dict.fromkeys(file.directory for file in files))
    names = [key.name for key in keys_of(directories[0])]
    kinds = kinds_of_keys(directories)
    if len(kinds) > 1:
        raise TableLayoutError(
            f"Table {definition.identifier} cannot be registered: the paths that {definition.location} matches "
            f"disagree on the partition columns: {'; '.join(kinds[:_SHOWN])}{'; …' if len(kinds) > _SHOWN else ''}. "
            "Narrow the location, or give partition_columns to register what conforms to them.",
            {"table": str(definition.identifier), "location": definition.location},
        )
    for directory in directories:
        partition_name(directory, names)
    return names


def _conforming(definition: TableDefinition, pattern: LocationPattern, files: Sequence[FoundFile]) -> list[FoundFile]:
    layout = PatternLayout(definition, pattern)
    judged = [(file, layout.judge(file.directory)) for file in files]
    conforming = [file for file, found in judged if found.name is not None]
    if conforming:
        return conforming
    reasons = dict.fromkeys(f"{str(file.location)!r}: {found.reason}" for file, found in judged[:_SHOWN])
    raise TableLayoutError(
        f"Table {definition.identifier} cannot be registered: no file that {definition.location} matches has the "
        f"partition columns in its path. Found: {'; '.join(reasons)}. Check the location and the partition columns and "
        "their types.",
        {"table": str(definition.identifier), "location": definition.location},
    )
