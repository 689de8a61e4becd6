"""Scans a location, with or without wildcards, before it is registered: its partition columns and a sample of files."""

from __future__ import annotations

import logging
import random
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.partition_names import split_component
from catalog_ext.metastore.model.tables import Column, TableDefinition
from catalog_ext.metastore.storage.entries import ListedFile, ListingFailure, obstacle
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.scan.file_formats import is_log, log_warning, names_other_format
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.scan.location_pattern import PatternLayout
from catalog_ext.scan.path_keys import Pruner, keys_of, kinds_of_keys, partition_name
from catalog_ext.scan.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.location_pattern import LocationPattern
    from catalog_ext.scan.walk_states import FoundFile

logger = logging.getLogger(__name__)

MAX_SCANNED_FILES = 20_000
"""If the keys are given, the scan for a sample of files ends after this number of files."""

_GIVE_KEYS = "Name the partition columns (partition_columns, or --key on the command line)"
_SHOWN_PATHS = 3
_MAX_KINDS = 100
"""The scan ends after this many different sets of keys: the paths certainly disagree, and more would only take
memory."""


@dataclass
class LocationContents:
    """The result of scanning a location.

    Attributes:
        partition_columns: The partition columns that the user gave, or the keys found in the paths, as STRING.
        sample: Locations and sizes of some files, spread over the scanned tree.
        files: The number of files seen; at least one if the location has any.
        nonconforming: Some paths that do not fit the partition columns, with reasons.
    """

    partition_columns: tuple[Column, ...]
    sample: list[tuple[Location, int]] = field(default_factory=list)
    files: int = 0
    nonconforming: list[str] = field(default_factory=list)


class LocationScan:
    """Scans a location for its partition columns and a sample of at most ``sample_files`` files (None: all of them)."""

    def __init__(self, storage: Storage, sample_files: int | None) -> None:
        self._storage = storage
        self._sample_files = sample_files
        # A fixed seed: the same tree gives the same sample, and so the same inferred schema.
        self._random = random.Random(20250101)

    def with_keys(self, definition: TableDefinition, *, sample: bool) -> LocationContents:
        """Scan the location of a table whose keys are known.

        Without ``sample`` the scan ends at the first conforming file.

        Raises:
            TableLayoutError: The location has files, and none of them lies below directories of the partition columns.
            StorageError: No conforming file was found, and a part of the tree cannot be listed.
        """
        layout = Layout(definition)
        found = LocationContents(definition.partition_columns)
        root, fitting = Location.parse(definition.location), 0
        failure: ListingFailure | None = None

        def descend(directory: str) -> bool:
            verdict = layout.judge(directory)
            if verdict.place is Place.NONCONFORMING:
                _remember(found.nonconforming, f"{directory!r}: {verdict.reason}")
            # Also list directories that are not partitions: if files are only in these, the layout is wrong, and the
            # table is not just empty.
            return verdict.place is not Place.HIDDEN

        with closing(self._listed(definition, descend, max(1, len(layout.keys)))) as listing:
            for event in listing:
                if isinstance(event, ListingFailure):
                    failure = failure or event
                    continue
                if layout.ignored.file(event.name) or obstacle(event):
                    continue
                found.files += 1
                if layout.judge(event.directory).place is Place.PARTITION:
                    fitting += 1
                    self._sample(found, fitting, root, event)
                elif not found.nonconforming:
                    _remember(found.nonconforming, f"{_path(event)!r}: the file lies above the partition directories")
                if fitting and (not sample or found.files >= MAX_SCANNED_FILES):
                    break
        if failure is not None and not fitting:
            # No file conforms so far, but the directory that could not be listed may contain such files, so the error
            # is raised.
            raise failure.error
        if found.files and not fitting:
            raise _no_partitions(definition, found)
        return found

    def find_keys(self, definition: TableDefinition) -> LocationContents:
        """Find the partition columns of a location in its paths; this lists the whole tree.

        A file above the directories of the other files, with a name of another format than the table's, such as
        README.txt, is ignored.

        Raises:
            TableLayoutError: The paths have different keys; the message lists some paths of each kind.
            StorageError: A part of the tree cannot be listed, so its keys are unknown.
        """
        found, other = LocationContents(()), LocationContents(())
        location, table = definition.location, str(definition.identifier)
        root, ignored = Location.parse(location), IgnoredNames.of(definition.properties)
        kinds: dict[tuple[str | None, ...], list[str]] = {}
        beside: dict[tuple[str | None, ...], list[str]] = {}

        def descend(directory: str) -> bool:
            return not ignored.directory(directory.rpartition("/")[2])

        with closing(self._listed(definition, descend, 1)) as listing:
            for event in listing:
                if isinstance(event, ListingFailure):
                    raise event.error
                if not ignored.file(event.name) and not obstacle(event):
                    is_other = names_other_format(event.name, definition.format)
                    seen = other if is_other else found
                    seen.files += 1
                    self._sample(seen, seen.files, root, event)
                    of_keys = (beside if is_other else kinds).setdefault(_keys(event.directory, table), [])
                    _remember(of_keys, _path(event))
                    if len(kinds) > _MAX_KINDS:
                        break
        for keys, paths in beside.items():
            if not any(len(keys) < len(deeper) and deeper[: len(keys)] == keys for deeper in kinds):
                kinds.setdefault(keys, paths)
        names = _agreed_keys(kinds, table, location)
        if found.files:
            _warn_of_others(
                table, [path for keys, paths in beside.items() if len(keys) == len(names) for path in paths]
            )
        columns = tuple(Column(name, "string") for name in names)
        return replace(found if found.files else other, partition_columns=columns)

    def _listed(
        self, definition: TableDefinition, descend: Callable[[str], bool], depth: int
    ) -> Generator[ListedFile | ListingFailure, None, None]:
        """Yield the files below the location, and failures to list a directory.

        At the end, warn of the log directories of other table formats (such as ``_delta_log``).
        """
        logs = set[str]()

        def look_into(directory: str) -> bool:
            if is_log(directory):
                logs.add(directory)
            return descend(directory)

        listing = list_tree(self._storage, Location.parse(definition.location), descend=look_into, depth_hint=depth)
        try:
            for event in listing:
                if isinstance(event, ListedFile | ListingFailure):
                    yield event
        finally:
            listing.close()
            self._warn_of_logs(definition, logs)

    def _warn_of_logs(self, definition: TableDefinition, logs: Iterable[str]) -> None:
        for directory in sorted(logs):
            warning = log_warning(self._storage, definition.location, directory)
            if warning is not None:
                logger.warning("Table %s at %s: %s.", definition.identifier, definition.location, warning)

    def _sample(self, found: LocationContents, seen: int, root: Location, event: ListedFile) -> None:
        # Reservoir sampling: every file has the same chance, for any number of files.
        size = self._sample_files
        place = len(found.sample) if size is None or len(found.sample) < size else self._random.randrange(seen)
        if size is not None and place >= size:
            return
        item = (root.join(_path(event)), event.size)
        if place == len(found.sample):
            found.sample.append(item)
        else:
            found.sample[place] = item


def _warn_of_others(table: str, paths: Sequence[str]) -> None:
    if paths:
        logger.warning(
            "The columns of table %s were read without files that are of another format by their names, such as %s. "
            "Queries that read these files fail; repair with verify names all of them.",
            table, ", ".join(paths[:_SHOWN_PATHS]),
        )  # fmt: skip


def _path(event: ListedFile) -> str:
    return f"{event.directory}/{event.name}" if event.directory else event.name


def _remember(paths: list[str], path: str) -> None:
    if len(paths) < _SHOWN_PATHS:
        paths.append(path)


def _keys(directory: str, table: str) -> tuple[str | None, ...]:
    """Return the keys of a path's ``key=value`` directories, in order.

    None stands for a directory of another form, which no partition column can name.
    """
    keys: list[str | None] = []
    for component in directory.split("/") if directory else []:
        split = split_component(component)
        if split is None:
            keys.append(None)
        elif split[0].lower() in (k.lower() for k in keys if k is not None):
            raise TableLayoutError(
                f"Table {table} cannot be registered: the key {split[0]!r} comes twice in {directory!r}. "
                f"{_GIVE_KEYS} to register what conforms to them.",
                {"table": table, "path": directory[:200]},
            )
        else:
            keys.append(split[0])
    return tuple(keys)


def _agreed_keys(kinds: Mapping[tuple[str | None, ...], Sequence[str]], table: str, location: str) -> tuple[str, ...]:
    if not kinds:
        raise TableLayoutError(
            f"Table {table} cannot be registered: {location} holds no file, so that no partition columns can be "
            f"found in its paths. {_GIVE_KEYS}, or say that there are none (an empty map, --no-keys), and the schema "
            "(schema, --schema).",
            {"table": table, "location": location},
        )
    if len({tuple(k and k.lower() for k in keys) for keys in kinds}) > 1:
        raise _disagreement(table, location, kinds)
    # Spellings of a key that differ in case are the same key. Take the smallest, so that the result does not depend on
    # the order of the listing.
    found = min(kinds, key=lambda keys: tuple(k or "" for k in keys))
    names = tuple(name for name in found if name is not None)
    if len(names) < len(found):
        raise TableLayoutError(
            f"Table {table} cannot be registered: {kinds[found][0]!r} lies in a folder that is not of the form "
            "key=value. "
            f"Register the folder that holds the key=value directories. {_GIVE_KEYS} to pass over what lies elsewhere.",
            {"table": table, "location": location},
        )
    return names


def _disagreement(table: str, location: str, kinds: Mapping[tuple[str | None, ...], Sequence[str]]) -> TableLayoutError:
    paths_by_columns = "; ".join(
        f"{'/'.join(k or '(a plain folder)' for k in keys) or 'no keys'} in {', '.join(repr(p[:160]) for p in paths)}"
        for keys, paths in list(kinds.items())[:5]
    )
    return TableLayoutError(
        f"Table {table} cannot be registered: the paths below {location} disagree on the partition columns: "
        f"{paths_by_columns}. {_GIVE_KEYS} to register what conforms to them.",
        {"table": table, "location": location},
    )


def _no_partitions(definition: TableDefinition, found: LocationContents) -> TableLayoutError:
    keys = "/".join(f"{c.name}=…" for c in definition.partition_columns) or "files directly in it"
    return TableLayoutError(
        f"Table {definition.identifier} cannot be registered: no file below {definition.location} lies in a "
        f"directory {keys}. "
        f"Found: {'; '.join(found.nonconforming)}. Check the location and the partition columns and their types.",
        {"table": str(definition.identifier), "location": definition.location},
    )


def scan_pattern(
    storage: Storage, definition: TableDefinition, pattern: LocationPattern, sample_files: int | None, *, keys: bool
) -> LocationContents:
    """Return the common layout of the files that match a table's location pattern.

    With ``keys`` the definition has the partition columns; otherwise they are the keys of the matched paths. The sample
    has at most ``sample_files`` files; None for all.

    Raises:
        PathNotFoundError: Some alternatives of the pattern match nothing, or no file matches; the message lists them.
        TableLayoutError: The files disagree on the keys, or none has the given keys.
        StorageError: The store refuses or does not answer.
    """
    matches = Walk(storage, list(pattern.alternatives), Pruner(None)).run()
    matches.check(pattern.text, list(pattern.alternatives))
    layout = PatternLayout(definition, pattern)
    files = sorted(f for f in matches.files.values() if not layout.ignores(pattern.relative(f.location)))
    columns = definition.partition_columns
    if keys:
        files = _conforming(definition, layout, files)
    else:
        columns = tuple(Column(name, "string") for name in _keys_of_matches(definition, files))
    wanted = len(files) if sample_files is None else min(sample_files, len(files))
    # Take files at equal distances in the listing, so that the sample covers every part of the tree.
    sample = [files[number * len(files) // wanted] for number in range(wanted)]
    return LocationContents(columns, [(file.location, file.size) for file in sample], len(files))


def _keys_of_matches(definition: TableDefinition, files: Sequence[FoundFile]) -> list[str]:
    """Return the keys that all paths have, in their order in the first path."""
    directories = list(dict.fromkeys(file.directory for file in files))
    names = [key.name for key in keys_of(directories[0])]
    kinds = kinds_of_keys(directories)
    if len(kinds) > 1:
        paths_by_columns = "; ".join([*kinds[:_SHOWN_PATHS], *(["…"] if len(kinds) > _SHOWN_PATHS else [])])
        raise TableLayoutError(
            f"Table {definition.identifier} cannot be registered: the paths that {definition.location} matches "
            f"disagree on the partition columns: {paths_by_columns}. Narrow the location, or give partition_columns "
            "to register what conforms to them.",
            {"table": str(definition.identifier), "location": definition.location},
        )
    for directory in directories:
        partition_name(directory, names)
    return names


def _conforming(definition: TableDefinition, layout: PatternLayout, files: Sequence[FoundFile]) -> list[FoundFile]:
    judged = [(file, layout.judge(file.directory)) for file in files]
    conforming = [file for file, found in judged if found.name is not None]
    if conforming:
        return conforming
    reasons = dict.fromkeys(f"{str(file.location)!r}: {found.reason}" for file, found in judged[:_SHOWN_PATHS])
    raise TableLayoutError(
        f"Table {definition.identifier} cannot be registered: no file that {definition.location} matches has the "
        f"partition columns in its path. Found: {'; '.join(reasons)}. Check the location and the partition columns and "
        "their types.",
        {"table": str(definition.identifier), "location": definition.location},
    )
