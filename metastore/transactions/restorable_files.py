"""Compares the files of an earlier version with the store, before a rollback restores them; it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.file_identity import has_recorded_content, indexed_file
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import FilesLostError, TableLayoutError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.transactions.deletion_gate import is_same_file
from catalog_ext.metastore.transactions.new_files import NewFiles, pending_deletions, removal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.index.read.version_differences import VersionDifference
    from catalog_ext.metastore.model.tables import DataFile, Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.transactions.resources import Resources

_FILES_AT_ONCE = 5000
_GONE, _DELETED, _CHANGED = "does not exist any more", "is being deleted", "was changed since"


@dataclass(frozen=True, slots=True)
class UnrestorableFile:
    """A file of an earlier version that cannot be restored.

    Attributes:
        partition: The name of its partition.
        uri: The file.
        file: The file as the index has recorded it.
        is_changed: Whether another file has its name now; otherwise it is gone.
        reason: What has happened to it, as text for people.
    """

    partition: str
    uri: str
    file: DataFile
    is_changed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Restorable:
    """The comparison of an earlier version with the present one and with the store.

    Attributes:
        differences: The partitions that differ.
        lost: The files that cannot be restored.
        deleted: By partition, files that the earlier version does not have in a directory that the partition keeps or
            gets again.
    """

    differences: Sequence[VersionDifference]
    lost: Sequence[UnrestorableFile]
    deleted: Mapping[str, tuple[Removal, ...]]


class RestorableFiles:
    """Finds the files that a rollback restores and deletes."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._index = resources.index
        self._new_files = NewFiles(resources)

    def compare(self, table: Table, version: int, predicate: Predicate | None) -> Restorable:
        """Return the comparison of an earlier version with the table's version and with the store.

        Raises:
            TableLayoutError: A directory that a partition keeps or gets again has visible files that the rollback may
                not delete: Hive engines would read them.
            StorageError: The store refuses or does not answer.
        """
        found = self._index.version_differences.between(table, version, predicate)
        # Read the pending deletions before the store: a file that is deleted during the comparison is missing in one
        # of the two.
        places = {table.directory_of(each.then) for each in found if each.then is not None and each.restored}
        near = pending_deletions(self._resources, lambda other: any(map(other.plan.may_delete_near, places)))
        pending = {removal.path for _, removal in near}
        lost = list(self._lost(table, found, pending))
        return Restorable(found, lost, {} if lost else self._deleted(table, version, found))

    def _lost(self, table: Table, found: Sequence[VersionDifference], pending: set[str]) -> Iterator[UnrestorableFile]:
        wanted = (
            (each.name, f"{table.directory_of(each.then)}/{file.path}", file)
            for each in found
            if each.then is not None
            for file in each.restored
        )
        for some in batched(wanted, _FILES_AT_ONCE):
            there = self._resources.storage.identify_many([Location.parse(uri) for _, uri, _ in some])
            for (name, uri, file), entry in zip(some, there, strict=True):
                if entry is None:
                    yield UnrestorableFile(name, uri, file, is_changed=False, reason=_GONE)
                elif not _is_as_recorded(entry, uri, file):
                    yield UnrestorableFile(name, uri, file, is_changed=True, reason=_CHANGED)
                elif uri in pending:
                    yield UnrestorableFile(name, uri, file, is_changed=False, reason=_DELETED)

    def _deleted(
        self, table: Table, version: int, found: Sequence[VersionDifference]
    ) -> dict[str, tuple[Removal, ...]]:
        """Return the files to delete in the directories that partitions keep or get again, by partition.

        Raises:
            TableLayoutError: There are files that the rollback may not delete.
        """
        deleted: dict[str, tuple[Removal, ...]] = {}
        again: dict[str, VersionDifference] = {}
        for each in found:
            if each.then is None:
                if not each.name:
                    # An unpartitioned table has only its own directory, which engines go on listing.
                    deleted[each.name] = _ended(table, version, each)
            elif each.present is None or table.directory_of(each.present) != table.directory_of(each.then):
                again[each.name] = each
            elif each.ended:
                deleted[each.name] = _ended(table, version, each)
        if again:
            deleted.update(self._others(table, version, again))
        self._index.version_differences.require_untagged(table, deleted)
        return deleted

    def _others(
        self, table: Table, version: int, again: Mapping[str, VersionDifference]
    ) -> dict[str, tuple[Removal, ...]]:
        """Return the other visible files in directories that partitions get again, by partition.

        Raises:
            TableLayoutError: No version of the table has one of these files.
        """
        directories = {n: Location.parse(table.directory_of(e.then)) for n, e in again.items() if e.then is not None}
        found = self._new_files.visible(directories)
        now = self._resources.table_of(table.table_id)
        known = {
            f"{directories[name]}/{file.path}": indexed_file(f"{directories[name]}/{file.path}", file)
            for name, each in again.items()
            for file in each.restored
        }
        ignored = IgnoredNames.of(now.definition.properties)
        left = self._new_files.left(now, directories)
        deleted: dict[str, tuple[Removal, ...]] = {}
        for name, entries in self._new_files.unknown(now, found, known).items():
            replaced = {removal.path: removal for removal in left.get(name, ())}
            others = [entry for entry in entries if not ignored.file(entry.location.name)]
            for entry in others:
                removal = replaced.get(entry.location.name)
                if removal is None or not is_same_file(entry, removal):
                    raise _foreign(table, version, name, entry)
            if others:
                deleted[name] = tuple(map(removal_of, others))
        return deleted


def files_lost(table: Table, version: int, lost: Sequence[UnrestorableFile]) -> FilesLostError:
    """Return the error for a rollback whose files are gone or changed."""
    first = lost[0]
    same = [each for each in lost if each.partition == first.partition]
    others = len({each.partition for each in lost}) - 1
    more = f" The same is true for {counted(others, 'other partition')}." if others else ""
    part = f" of partition {shown(first.partition)}" if first.partition else ""
    named = shown(first.uri)
    first_of = f"the file {named} {first.reason}" if len(same) == 1 else (
        f"{len(same):,} files are gone or changed, such as {named}, which {first.reason}"
    )  # fmt: skip
    return FilesLostError(
        f"Version {version}{part} of table {table.identifier} cannot be restored: {first_of}.{more} Nothing was "
        "changed. A dry run lists all partitions; 'where' limits the rollback to those that can be restored.",
        {"table": str(table.identifier), "partition": first.partition[:200], "version": str(version),
         "files": str(len(lost))},
    )  # fmt: skip


def _ended(table: Table, version: int, difference: VersionDifference) -> tuple[Removal, ...]:
    """Return the files that a partition loses in a directory that it keeps.

    Raises:
        TableLayoutError: Another program wrote one of them into an external table: it belongs to the user.
    """
    names = {file.path for file in difference.restored}
    ended = [file for file in difference.ended if file.path not in names]
    if table.definition.table_type is TableType.EXTERNAL:
        foreign = next((file.path for file in ended if transaction_id_in(file.path) is None), None)
        if foreign is not None:
            raise _users_file(table, version, difference.name, foreign)
    return tuple(indexed_file(file.path, file) for file in ended)


def _users_file(table: Table, version: int, name: str, path: str) -> TableLayoutError:
    part = f"Partition {shown(name)} of table" if name else "Table"
    return TableLayoutError(
        f"{part} {table.identifier} cannot get the files of version {version}: it keeps its directory, in which "
        f"another program has written {shown(path)} since. The table is an external one, so the file is not deleted, "
        "and engines that list the directory would go on reading it. Nothing was changed. Move the file away, run a "
        "repair in mode sync, and then the rollback.",
        {"table": str(table.identifier), "partition": name[:200], "location": path[:200]},
    )


def _is_as_recorded(entry: Entry, uri: str, file: DataFile) -> bool:
    recorded = indexed_file(uri, file)
    return entry.kind is EntryKind.FILE and has_recorded_content(recorded, entry.size, entry.modified_ms, entry.etag)


def _foreign(table: Table, version: int, name: str, entry: Entry) -> TableLayoutError:
    return TableLayoutError(
        f"Partition {shown(name)} of table {table.identifier} cannot get its directory of version {version} again: "
        f"{shown(str(entry.location))} is there, which that version does not have, and Hive engines would read it. "
        "Nothing was changed. Move or delete the file, or choose a version that has it.",
        {"table": str(table.identifier), "partition": name[:200], "location": str(entry.location)},
    )
