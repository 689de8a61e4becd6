"""Finds the partitions whose index entries may be outdated, according to store events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import InvalidPatternError
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.model.etags import same_etag
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.scan.location_pattern import LocationPattern, PatternLayout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.events.notifications import StoreEvent
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

_SECOND_MS = 1000


class _Known(NamedTuple):
    """The size, modification time and ETag of a file as the index has them."""

    size: int
    modified_ms: int
    etag: int | None


@dataclass(slots=True)
class Suspects:
    """The suspect partitions of one table, with the events that made them suspect.

    Attributes:
        table_id: The table's number.
        partitions: The events by partition; for a location with wildcards all events are under ``''``.
    """

    table_id: int
    partitions: dict[str, list[StoreEvent]] = field(default_factory=dict)

    def add(self, name: str, event: StoreEvent) -> None:
        """Add an event about a partition."""
        self.partitions.setdefault(name, []).append(event)


def tables_of(index: Index, events: Sequence[StoreEvent]) -> tuple[list[Suspects], list[StoreEvent]]:
    """Return the events about files that may belong to a table, by table, and all other events.

    Events about hidden names, and about paths that are not below a partition, are among the others.
    """
    visible = [event for event in events if _is_file(event)]
    directories = {event.uri.rpartition("/")[0] for event in visible}
    own: dict[str, list[tuple[int, str]]] = {}
    for table_id, name, location in index.partitions.within(directories):
        own.setdefault(location, []).append((table_id, name))
    suspects: dict[int, Suspects] = {}
    about: set[str] = set()

    def note(table_id: int, name: str, event: StoreEvent) -> None:
        suspects.setdefault(table_id, Suspects(table_id)).add(name, event)
        about.add(event.uri)

    for event in visible:
        for table_id, name in own.get(event.uri.rpartition("/")[0], ()):
            note(table_id, name, event)
    roots: dict[str, list[int]] = {}
    for table_id, location in index.tables.locations() if visible else ():
        for root in _roots(location):
            roots.setdefault(root, []).append(table_id)
    places: dict[int, _Places] = {}
    for event in visible:
        for table_id in (number for root in _above(event.uri) for number in roots.get(root, ())):
            if table_id not in places:
                places[table_id] = _Places(index.tables.load_by_id(table_id))
            partition = places[table_id].partition(event.uri)
            if partition is not None:
                note(table_id, partition, event)
    return list(suspects.values()), [event for event in events if event.uri not in about]


def _is_file(event: StoreEvent) -> bool:
    name = event.uri.rpartition("/")[2]
    return bool(name) and not is_hidden(name) and is_storable(event.uri)


def _above(uri: str) -> Iterator[str]:
    """Yield the directories above a file, the nearest first."""
    while (uri := uri.rpartition("/")[0]) and not uri.endswith("/"):
        yield uri


def _roots(location: str) -> set[str]:
    """Return the location, and if it may be a pattern with wildcards, also the directory above all its matches."""
    if not any(mark in location for mark in "*?{\\"):
        return {location}
    try:
        return {location, str(LocationPattern.parse(location).root)}
    except InvalidPatternError:
        # The text is not a valid pattern, so it is a plain directory with special characters in its name.
        return {location}


class _Places:
    """Finds the partition of a table that a file belongs to, by its path."""

    def __init__(self, table: Table) -> None:
        definition = table.definition
        self._pattern = LocationPattern.of(definition)
        self._root = definition.location
        self._layout = Layout(definition)
        self._by_pattern = None if self._pattern is None else PatternLayout(definition, self._pattern)

    def partition(self, uri: str) -> str | None:
        """Return the name of a file's partition, or None.

        For a location with wildcards ``''`` stands for any partition.
        """
        place, _, name = uri.rpartition("/")
        if self._layout.ignored.file(name):
            return None
        if self._by_pattern is not None:
            # Only the directory is checked. The repair, which lists by the pattern, also checks the file's name.
            return None if self._by_pattern.judge(Location.parse(place)).name is None else ""
        directory = place[len(self._root) + 1 :]
        return directory if self._layout.judge(directory).place is Place.PARTITION else None


def suspect_names(index: Index, table: Table, suspects: Suspects) -> list[str]:
    """Return the names of the partitions for which events differ from the index. The store is not listed."""
    names = list(suspects.partitions)
    if table.definition.has_wildcards:
        return names
    wanted = {(name, event.uri.rpartition("/")[2]) for name, events in suspects.partitions.items() for event in events}
    known: dict[tuple[str, str], _Known] = {}
    ids = [n for batch in index.partitions.named(table, names) for n in batch.column("partition_id").to_pylist()]
    for batch in index.files.known(table, None, ids) if ids else ():
        columns = [batch.column(n).to_pylist() for n in ("partition", "path", "size", "modified_ms", "etag_hash")]
        for name, path, *is_as in zip(*columns, strict=True):
            if (name, path) in wanted:
                known[name, path] = _Known(*is_as)
    in_flight = index.transactions.uncommitted_ids(table.table_id, table.version)
    written = {transaction_id_in(e.uri.rpartition("/")[2]) for events in suspects.partitions.values() for e in events}
    ours = index.forgotten_transactions.known({number for number in written if number is not None})
    return [
        name
        for name, events in suspects.partitions.items()
        if not all(_says_nothing(name, e, known, in_flight, ours) for e in events)
    ]


def _says_nothing(
    name: str, event: StoreEvent, known: Mapping[tuple[str, str], _Known], in_flight: Collection[str],
    ours: Collection[str],
) -> bool:  # fmt: skip
    """Return whether the index already has the state that an event reports, or will when a running write commits."""
    path = event.uri.rpartition("/")[2]
    of_write, there = transaction_id_in(path), known.get((name, path))
    if event.removed:
        # A removal needs no check if the file is unregistered and its name is that of a write of this index. Any other
        # unregistered file may be about to be registered by a repair that has listed it. Removing one version of an
        # object may bring an older version back.
        return there is None and of_write in ours and not event.of_version
    if there is None:
        return of_write is not None and of_write in in_flight
    if there.size != event.size or not same_etag(there.etag, event.etag):
        return False
    # The index has no modification time for files that its own writes made, so size and ETag decide. For other files,
    # whose names may contain a similar number by chance, compare the time too, by the second as in a repair.
    is_same_time = event.at_ms is not None and there.modified_ms // _SECOND_MS == event.at_ms // _SECOND_MS
    return of_write in ours or is_same_time
