"""Finds files on the store that are neither in the index nor written by a running write."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.file_identity import indexed_file
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import VACUUM, State, transaction_id_in
from catalog_ext.metastore.errors import ConflictError, LocationNotFoundError, TableLayoutError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.entries import Entry, EntryKind, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.transactions.deletion_gate import (
    is_same_file,
    is_unchanged,
    replaced_by_relocations,
    without_needed,
)
from catalog_ext.metastore.transactions.moves import Moves
from catalog_ext.metastore.transactions.staging_locations import below

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)

_TREE_FROM = 64
"""The number of directories from which on they may be listed as a tree."""
_ASKED_AT_ONCE = 5000
_FILES_A_REQUEST, _REQUESTS_A_PARENT = 1000, 4


class NewFiles:
    """Lists the directories of partitions and compares them with the index; it changes nothing."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage

    def found(
        self, table_id: int, directories: Mapping[str, Location], *, existing: bool = True,
        by_hand: Collection[str] = (),
    ) -> dict[str, tuple[DataFile, ...]]:  # fmt: skip
        """Return the visible files to register in each directory.

        Files that a committed write will delete, files that a relocation left behind (see ``left``) and files that a
        running write promoted are skipped.

        ``existing``: False skips partitions that are in the index by now.
        ``by_hand``: partitions whose directory the user's statement names: files that a relocation left there are
        registered.

        Raises:
            ConflictError: A command is moving files of one of the partitions, or was undone during the listing.
            StorageError: A directory cannot be listed.
        """
        # Read the pending deletions before the listing, so that a file that is deleted during the listing is not
        # registered.
        at_work = self._index.transactions.at_work()
        pending = self._pending_removals(directories, by_hand) if at_work.cleans else {}
        moves = Moves(self._index, table_id, exist=at_work.moves)
        found = self.visible(directories)
        if not any(found.values()):
            return dict.fromkeys(found, ()) if existing else {}
        # Read the table and the running writes after the listing: the files of every write that has committed by now
        # are in the index.
        table = self._resources.table_of(table_id)
        _require_unmoved(table, moves.partitions(table), [name for name, entries in found.items() if entries])
        in_flight = uncommitted(self._resources, table)
        replaced = {removal.path: removal for removal in replaced_by_relocations(self._index, table)}
        ignored = IgnoredNames.of(table.definition.properties)
        there = set() if existing else self._index.partitions.existing(table, sorted(found))

        def is_new(name: str, entry: Entry) -> bool:
            file = entry.location.name
            if _is_known(entry, pending) or ignored.file(file) or transaction_id_in(file) in in_flight:
                return False
            return name in by_hand or not _is_known(entry, replaced)

        return {
            name: tuple(_data_file(entry) for entry in entries if is_new(name, entry))
            for name, entries in found.items()
            if name not in there
        }

    def left(self, table: Table, directories: Mapping[str, Location]) -> dict[str, tuple[Removal, ...]]:
        """Return the files that relocations left in the directories of partitions that are recreated, by partition.

        Engines that list directories would read the overwritten rows again. A write that creates the partition deletes
        these files (``unneeded``); ADD PARTITION gives the partition another directory.
        """
        names = {str(directory): name for name, directory in directories.items()}
        found: dict[str, list[Removal]] = {}
        for removal in replaced_by_relocations(self._index, table):
            directory, _, path = removal.path.rpartition("/")
            if directory in names:
                found.setdefault(names[directory], []).append(replace(removal, path=path))
        return {name: tuple(removals) for name, removals in found.items()}

    def require_not_held(self, table: Table, directories: Mapping[str, Location]) -> None:
        """Check that no tag holds a version that has replaced files in the directories of recreated partitions.

        Raises:
            TableLayoutError: A tag holds such a version.
        """
        names = {str(directory): name for name, directory in directories.items()}
        tags = {tag.version: tag.name for tag in self._index.version_holds.tags(table) if tag.in_force}
        pages = self._index.ended_files.pages(table, table.version, held=tags) if tags else ()
        for file in (file for page in pages for file in page):
            directory = file.uri.rpartition("/")[0]
            if file.held_at is not None and directory in names:
                tag = tags[file.held_at]
                raise TableLayoutError(
                    f"The partition {names[directory][:200]!r} of table {table.identifier} cannot be created at "
                    f"{directory[:500]}: the directory has files of version {file.held_at}, which the tag {tag!r} "
                    "holds. Engines that list directories would read them. Remove the tag with CALL "
                    "<catalog>.system.untag, or add the partition with ALTER TABLE … ADD PARTITION, which gives it "
                    "another directory.",
                    {"table": str(table.identifier), "partition": names[directory][:200], "tag": tag},
                )

    def unneeded(
        self, table: Table, left: Mapping[str, tuple[Removal, ...]], directories: Mapping[str, Location]
    ) -> dict[str, tuple[Removal, ...]]:
        """Return the files found by ``left`` that no other partition or table in the index has."""
        places = {f"{directories[name]}/{removal.path}" for name, removals in left.items() for removal in removals}
        free = without_needed(self._resources, table, places)
        for place in sorted(places - free):
            logger.warning("%s stays, although an overwrite replaced it: another partition needs it.", place)
        return {
            name: tuple(removal for removal in removals if f"{directories[name]}/{removal.path}" in free)
            for name, removals in left.items()
        }

    def unknown(
        self, table: Table, found: Mapping[str, Sequence[Entry]], known: Mapping[str, Removal]
    ) -> dict[str, list[Entry]]:
        """Return the files that the index lacks or has in another state, and that no running write has, by directory.

        Directories without such files are left out. The table must have been loaded after the files were listed.

        ``found``: the listed files, by directory.
        ``known``: the recorded files, by URI.
        """
        in_flight = uncommitted(self._resources, table)
        unknown = {
            name: [
                entry
                for entry in entries
                if not _is_as_known(entry, known) and transaction_id_in(entry.location.name) not in in_flight
            ]
            for name, entries in found.items()
        }
        unknown = {name: entries for name, entries in unknown.items() if entries}
        # Two partitions can share a directory: after a RENAME of an external partition, or by a location that a user
        # gave. So also compare with the files of other partitions there.
        directories = {str(entry.location.parent) for entries in unknown.values() for entry in entries}
        others = _by_uri(self._index.living_partitions.files_at(table, directories).items())
        left = {name: [e for e in entries if not _is_as_known(e, others)] for name, entries in unknown.items()}
        return {name: entries for name, entries in left.items() if entries}

    def _pending_removals(self, directories: Mapping[str, Location], by_hand: Collection[str]) -> dict[str, Removal]:
        """Return the files in the directories that committed writes of any table will delete, by URI.

        Raises:
            ConflictError: Vacuum is deleting files in a directory that the user's statement names, whose rows the user
                wants.
        """
        names = {str(place): name for name, place in directories.items()}
        pending: dict[str, Removal] = {}
        for committed, removal in pending_deletions(self._resources, lambda c: any(map(c.plan.may_delete_near, names))):
            name = names.get(removal.path.rpartition("/")[0])
            if name in by_hand and committed.operation == VACUUM:
                raise ConflictError(
                    f"Vacuum is deleting replaced files of table {committed.table} such as {removal.path}. Nothing was "
                    "changed; try again when it has ended. If its process is gone, "
                    "`catalog-ext recover --older-than 0s` finishes it.",
                    {"location": removal.path, "transaction": committed.transaction_id},
                )
            if name is not None:
                pending[removal.path] = removal
        return pending

    def known(self, table: Table, predicate: Predicate) -> dict[str, Removal]:
        """Return the index's files of the partitions for which a bound predicate is true, by URI."""
        columns = ("partition", "location", "path", "size", "modified_ms", "etag_hash")
        return _by_uri(
            (table.directory(name, own), [DataFile(path, size, at, etag=etag)])
            for batch in self._index.files.known(table, predicate)
            for name, own, path, size, at, etag in zip(*(batch.column(c).to_pylist() for c in columns), strict=True)
        )

    def known_of(self, places: Mapping[int, Location]) -> dict[str, Removal]:
        """Return the index's present files of partitions, by URI; ``places`` has their directories by number."""
        return _by_uri(
            (str(places[number]), files)
            for numbers in batched(places, _ASKED_AT_ONCE)
            for number, files in self._index.living_partitions.files(numbers).items()
        )

    def visible(self, directories: Mapping[str, Location], table: Table | None = None) -> dict[str, list[Entry]]:
        """Return the visible files directly in each directory: those of ``contents`` without the hidden files."""
        found = self.contents(directories, table)
        return {name: [e for e in entries if not is_hidden(e.location.name)] for name, entries in found.items()}

    def contents(self, directories: Mapping[str, Location], table: Table | None = None) -> dict[str, list[Entry]]:
        """Return the files directly in each directory, hidden files too; a missing directory has none.

        If the table is given, directories inside the table's are listed as a tree if that takes fewer requests (on S3,
        one request lists a thousand files).
        """
        found = {} if table is None else self._together(directories, table)
        single = sorted(directories.keys() - found.keys())
        listed = in_parallel(partial(self._files_in, directories), single, self._resources.threads)
        return {**found, **dict(zip(single, listed, strict=True))}

    def _together(self, directories: Mapping[str, Location], table: Table) -> dict[str, list[Entry]]:
        """Return the contents of directories that a tree listing covers with fewer requests than one per directory."""
        root = Location.parse(table.definition.location)
        inside = {place.relative_to(root): name for name, place in directories.items() if root.contains(place)}
        inside.pop("", None)
        parents = {path.rpartition("/")[0] for path in inside}
        requests = table.totals.files / _FILES_A_REQUEST if parents == {""} else len(parents) * _REQUESTS_A_PARENT
        return self._tree(root, inside) if len(inside) >= max(_TREE_FROM, requests) else {}

    def _tree(self, root: Location, inside: Mapping[str, str]) -> dict[str, list[Entry]]:
        """Return the files of directories below a root; ``inside`` maps their relative paths to names."""
        found: dict[str, list[Entry]] = {name: [] for name in inside.values()}
        above = {path[:end] for path in inside for end, c in enumerate(path) if c == "/"}
        depth = 1 + max(path.count("/") for path in inside)
        if self._storage.store_has_directories(root) and self._storage.stat(root) is None:
            return found
        wanted = above | inside.keys()
        for event in list_tree(self._storage, root, descend=wanted.__contains__, depth_hint=depth):
            if isinstance(event, ListingFailure):
                raise event.error
            if isinstance(event, ListedFile) and event.name and event.directory in inside:
                place = below(below(root, event.directory), event.name)
                entry = Entry(place, EntryKind.FILE, event.size, event.modified_ms, event.etag)
                found[inside[event.directory]].append(entry)
        return found

    def _files_in(self, directories: Mapping[str, Location], name: str) -> list[Entry]:
        try:
            entries = self._storage.list_directory(directories[name])
        except LocationNotFoundError:
            return []
        return [e for e in entries if e.kind is EntryKind.FILE]


def uncommitted(resources: Resources, table: Table) -> Mapping[str, State]:
    """Return the states of the transactions whose files no version of the table shows (see ``uncommitted_ids``)."""
    return resources.index.transactions.uncommitted_ids(table.table_id, table.version)


def pending_deletions(
    resources: Resources, concerns: Callable[[Transaction], object]
) -> Iterator[tuple[Transaction, Removal]]:
    """Yield the files that committed transactions still have to delete, for transactions that ``concerns`` selects."""
    for committed in resources.in_states((State.COMMITTED,)):
        if concerns(committed):
            for removal in resources.index.deletions.of(committed.transaction_id):
                yield committed, removal


def _by_uri(directories: Iterable[tuple[str, Sequence[DataFile]]]) -> dict[str, Removal]:
    """Convert the index's files, given by directory, to the form that is compared with the store's, by URI."""
    pairs = ((f"{place}/{file.path}", file) for place, files in directories for file in files)
    return {uri: indexed_file(uri, file) for uri, file in pairs}


def _data_file(entry: Entry) -> DataFile:
    return DataFile(entry.location.name, entry.size, entry.modified_ms, etag=entry.etag)


def _is_known(entry: Entry, known: Mapping[str, Removal]) -> bool:
    file = known.get(str(entry.location))
    return file is not None and is_same_file(entry, file)


def _is_as_known(entry: Entry, known: Mapping[str, Removal]) -> bool:
    file = known.get(str(entry.location))
    return file is not None and is_unchanged(entry, file)


def _require_unmoved(table: Table, moving: Mapping[str, Transaction], names: Iterable[str]) -> None:
    for name in names:
        command = moving.get(name)
        if command is not None:
            raise ConflictError(
                f"The {command.operation} {command.transaction_id} is moving files of partition {name[:200]!r} of "
                f"table {table.identifier}. Nothing was done; try again when it has ended.",
                {"table": str(table.identifier), "partition": name[:200], "transaction": command.transaction_id},
            )


def removal_of(entry: Entry) -> Removal:
    """Convert a listed file to a ``Removal``, which describes a file to delete."""
    return Removal(entry.location.name, entry.size, entry.modified_ms, entry.etag)
