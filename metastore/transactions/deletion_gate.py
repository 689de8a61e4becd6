"""The check before every deletion of a file: it must be the recorded file, and nothing else may need it.

``docs/design/15-file-lifetime.md`` lists the states of a file and the deletions that call this check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.file_identity import is_same
from catalog_ext.metastore.commit.file_identity import is_unchanged as is_as_recorded
from catalog_ext.metastore.commit.partition_plans import AddPartitions, RelocatePartition, Rollback
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State, transaction_id_in
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.needed_files import FileUser
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.transactions.resources import Resources

    StillNamed = Callable[[Sequence[str], Sequence[str]], Sequence[str]]
    """Takes names of partitions and directories; returns the directories that metastore partitions have."""

_UNDER_WAY = (State.OPEN, State.RESERVED, State.COMMITTED)
_COMMAND = "the running statement {} (transaction {}) of table {} registers its directory"
_LOADED = "the running LOAD DATA (transaction {}) into table {} moves it"
_NAMED = (
    "The metastore still has partitions of table {} at {}, and the index has none there: Hive engines read the files "
    "that are to be deleted. A change was skipped, or was made without the metastore. Run catalog-ext publish {}, then "
    "vacuum again. If a Hive engine added the partition on purpose, import the table or follow the metastore: then the "
    "index has the partition, and vacuum keeps its files."
)


@dataclass(frozen=True, slots=True)
class Need:
    """The reason why a file must not be deleted.

    Attributes:
        reason: The partition or statement that needs the file, as text for people.
        in_metastore: Whether only the metastore refers to the file, so that index and metastore differ.
    """

    reason: str
    in_metastore: bool = False


class DeletionGate:
    """Decides which files of a table must not be deleted. Ask just before deleting: files may be registered anytime.

    It reads all tables of the index, because two tables may have the same folder or share a partition's directory.

    Args:
        table: The table whose files will be deleted.
        named: Looks up partitions in the metastore; None if the catalog has no metastore.
    """

    def __init__(self, resources: Resources, table: Table, named: StillNamed | None = None) -> None:
        self._resources = resources
        self._table = table
        self._named = named

    def needs(self, uris: Collection[str]) -> dict[str, Need]:
        """Return the files that a partition in the index has or a running statement will register, with the reason."""
        # Read the running statements first. If a statement ends between the two reads, its files are in the index by
        # then.
        needs = self.in_flight(uris)
        return needs | {uri: needed_by(user) for uri, user in self._resources.index.needed_files.users(uris).items()}

    def named(self, uris: Mapping[str, str | None]) -> dict[str, Need]:
        """Return files in directories that the metastore still has for a partition which the index has elsewhere.

        Args:
            uris: The partition that had each file, by URI; None if it is not known.

        Raises:
            MetastoreError: The metastore cannot be read.
        """
        if self._named is None or not uris:
            return {}
        directories = {uri.rpartition("/")[0] for uri in uris}
        root = f"{self._table.definition.location}/"
        inside = {place.removeprefix(root) for place in directories if place.startswith(root)}
        names = sorted({*(name for name in uris.values() if name), *map(_partition_below, inside)} - {""})
        living = self._resources.partitions_of_values(self._table, names)
        left = directories - {self._table.directory_of(partition) for partition in living}
        still = set(self._named(names, sorted(left))) if left else set()
        shown = self._table.identifier
        return {
            uri: Need(_NAMED.format(shown, place, shown), in_metastore=True)
            for uri in uris
            if (place := uri.rpartition("/")[0]) in still
        }

    def in_flight(self, uris: Collection[str]) -> dict[str, Need]:
        """Return the files that running statements have listed, or may list, to register or move them."""
        directories: dict[str, Need] = {}
        sources: dict[str, Need] = {}
        for one in self._resources.in_states(_UNDER_WAY):
            if one.plan.moves_user_files:
                reason = Need(_LOADED.format(one.transaction_id, one.table))
                staged = self._resources.recorded_files(one.transaction_id)
                sources.update((file.source, reason) for file in staged if file.source is not None)
            reason = Need(_COMMAND.format(one.operation, one.transaction_id, one.table))
            directories.update((place, reason) for place in named_directories(self._resources.index, one))
        found = {uri: need for uri in uris if (need := directories.get(uri.rpartition("/")[0])) is not None}
        return found | {uri: sources[uri] for uri in uris if uri in sources}


def needed_by(user: FileUser) -> Need:
    """Return the reason for keeping a file that a partition in the index has."""
    part = f" (partition {user.partition[:200]})" if user.partition else ""
    return Need(f"needed by version {user.version} of table {user.table}{part}")


def named_directories(index: Index, command: Transaction) -> Iterable[str]:
    """Return the directories that a command gives to partitions; none for other statements.

    These are the directories of ADD PARTITION and SET LOCATION, and those from which a rollback restores files.
    """
    plan = command.plan
    match plan.asked:
        case AddPartitions(partitions=partitions):
            given = [partition.location or f"{plan.location}/{partition.name}" for partition in partitions]
        case RelocatePartition(location=location):
            given = [location]
        case Rollback(version=version):
            table = index.tables.find(command.table_id or 0)
            bound = None if table is None else bound_predicate(plan, table)
            return () if table is None else index.version_differences.directories(table, version, bound)
        case _:
            given = []
    return [str(Location.parse(place)) for place in given]


def _partition_below(directory: str) -> str:
    """Return the partition name in a path relative to the table; a relocation's prefix is removed."""
    components = directory.split("/")
    return "/".join(components[2:] if components[0] == DATA else components)


def without_needed(resources: Resources, table: Table, uris: Collection[str]) -> set[str]:
    """Return the files that no partition and no running statement needs; see ``DeletionGate.needs``."""
    return set(uris) - DeletionGate(resources, table).needs(uris).keys() if uris else set()


def is_unchanged(there: Entry, recorded: Removal) -> bool:
    """Return whether a file is unchanged, as far as size, time and ETag were recorded."""
    return is_as_recorded(recorded, there.size, there.modified_ms, there.etag)


def is_same_file(there: Entry, recorded: Removal) -> bool:
    """Return whether the file at a location is still the recorded one; see ``file_identity.is_same``."""
    return is_same(recorded, there.size, there.modified_ms, there.etag)


def replaced_by_relocations(index: Index, table: Table) -> Iterator[Removal]:
    """Yield the files that relocating overwrites replaced and that no later version of the table has.

    Such an overwrite writes partitions to new directories and leaves the old files for readers of older versions.
    Repair must not register these files as new when their partition is gone. A path that a later version has again
    (``SET LOCATION``, ``ADD PARTITION … LOCATION``) is left out, whatever happened to it afterwards. A file that
    differs from the recorded one is another file under the same name. A name with a transaction's id is yielded without
    size, time and ETag, because the overwrite also replaced a rewritten file of that name.
    """
    for page in index.ended_files.pages(table, table.version):
        for file in page:
            own = transaction_id_in(file.uri.rpartition("/")[2]) is not None
            yield Removal(file.uri) if own else Removal(file.uri, file.size, file.modified_ms, file.etag)
