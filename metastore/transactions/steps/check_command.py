"""The check of a partition command against the table and the store, before ``reserve``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    CheckedAdd,
    CheckedDrop,
    CheckedExchange,
    CheckedRelocate,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    MovingPartition,
    RelocatePartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.errors import ConflictError, InvalidInputError, LocationNotFoundError, TableLayoutError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.predicates.tree import TRUE, bind
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.transactions.linked_directories import (
    refuse_linked,
    refuse_mixed_drop,
    refuse_other_case,
    sharing_by_case,
)
from catalog_ext.metastore.transactions.moves import covered_partitions
from catalog_ext.metastore.transactions.new_files import NewFiles, pending_deletions, removal_of
from catalog_ext.metastore.transactions.staging_locations import relocation_base
from catalog_ext.metastore.transactions.steps.check_rollback import checked_rollback

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.partition_plans import AskedCommand, CheckedRename, NewPartition
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.transactions.resources import Resources

_PARTITIONS_AT_ONCE = 500


class CommandCheck:
    """The check of one partition command; create an object per check. Only directories of new partitions are created.

    Args:
        transaction: The command's transaction, in state open.
    """

    def __init__(self, resources: Resources, transaction: Transaction) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage
        self._new_files = NewFiles(resources)
        self._transaction = transaction
        self._table = resources.table(transaction)

    def checked(self, asked: AskedCommand) -> WritePlan:
        """Return the plan with the findings of the check, and record the files that will be moved.

        Raises:
            PartitionAlreadyExistsError, PartitionNotFoundError: The partitions do not fit the command.
            LocationNotFoundError: A directory outside the table's does not exist.
            TableLayoutError: There are files at a partition's target.
            FilesLostError: Files that a rollback restores are gone or changed.
            InvalidInputError: The command does not apply to this table.
            StorageError: The store refuses or does not answer.
        """
        plan = self._transaction.plan
        match asked:
            case AddPartitions():
                return self._add(asked)
            case DropPartitions():
                return replace(plan, change=self._drop(asked))
            case RenamePartition():
                return replace(plan, change=self._rename(asked))
            case RelocatePartition():
                return replace(plan, change=self._relocate(asked))
            case ExchangePartitions():
                return replace(plan, change=self._exchange(asked))
            case Rollback():
                return checked_rollback(self._resources, self._transaction, self._table, asked)
            case _:
                assert_never(asked)

    def _living(self, names: Sequence[str]) -> list[Partition]:
        """Return the table's partitions whose values equal those of one of the names."""
        return self._resources.partitions_of_values(self._table, names)

    def _add(self, asked: AddPartitions) -> WritePlan:
        table = self._table
        living = self._living([partition.name for partition in asked.partitions])
        wanted = rules.partitions_to_add(asked, table, asked.partitions, living)
        by_hand = [p.name for p in wanted if p.location is not None]
        default = {p.name: _location(table, p.name, None) for p in wanted if p.location is None}
        refuse_other_case(str(table.identifier), Location.parse(table.definition.location), default)
        left = self._new_files.left(table, default) if default else {}
        wanted = tuple(self._beside(p) if p.name in left else p for p in wanted)
        self._require_nothing_else({name: default[name] for name in left})
        found = self._found({p.name: _location(table, p.name, p.location) for p in wanted}, by_hand=by_hand)
        own = {p.name: p.location for p in wanted if p.location is not None}
        return replace(self._transaction.plan, locations=own, change=CheckedAdd(asked, wanted, found))

    def _beside(self, partition: NewPartition) -> NewPartition:
        """Return a new partition with another directory, as its default one contains files that an overwrite replaced.

        ADD PARTITION deletes nothing. In the default directory Hive engines would read the overwritten rows again.
        """
        base = relocation_base(self._transaction.plan.location, self._transaction.transaction_id)
        return replace(partition, location=f"{base}/{partition.name}")

    def _require_nothing_else(self, directories: Mapping[str, Location]) -> None:
        """Check that the default directories of partitions that are added elsewhere contain only replaced files."""
        table = self._table
        found = self._new_files.found(table.table_id, directories) if directories else {}
        for name, files in found.items():
            if files:
                raise TableLayoutError(
                    f"The partition {shown(name)} of table {table.identifier} cannot be added: its directory "
                    f"{shown(str(directories[name]))} holds files that a relocating overwrite has replaced, and "
                    f"others, such as {shown(files[0].path)}. Nothing was changed. To have all of them, add the "
                    "partition with that directory as its LOCATION. Otherwise vacuum the replaced files first.",
                    {"table": str(table.identifier), "partition": name[:200], "location": str(directories[name])},
                )

    def _relocate(self, asked: RelocatePartition) -> CheckedRelocate:
        table = self._table
        name, directory = asked.name, Location.parse(asked.location)
        rules.partitions_of(table, name, self._living([name]))
        own = None if directory == _location(table, name, None) else str(directory)
        return CheckedRelocate(asked, own, self._found({name: directory}, by_hand=[name])[name])

    def _drop(self, asked: DropPartitions) -> CheckedDrop:
        """Find the files that the index does not have, such as success files: they are deleted with the data."""
        table = self._table
        directories = {
            partition.name: Location.parse(directory)
            for partition in covered_partitions(self._index, self._transaction.plan, table)
            if rules.deletes(asked, table, directory := table.directory_of(partition))
        }
        root = Location.parse(table.definition.location)
        if directories and (shared := sharing_by_case(root, directories, self._in_default_directories())):
            refuse_mixed_drop(str(table.identifier), directories, shared)
            return CheckedDrop(replace(asked, deletes=DataDeletion.NONE))
        refuse_linked(self._index, str(table.identifier), root, directories, by_case=False)
        found = self._new_files.contents(directories, table)
        if not any(found.values()):
            return CheckedDrop(asked)
        table = self._resources.table_of(table.table_id)
        known = self._new_files.known(table, bind(asked.predicate, table.definition.keys, str(table.identifier)))
        unknown = self._unknown(table, found, known)
        return CheckedDrop(asked, {name: tuple(map(removal_of, entries)) for name, entries in unknown.items()})

    def _in_default_directories(self) -> Iterator[str]:
        """Yield the names of the table's partitions that are in their default directories."""
        for batch in self._index.partitions.all(self._table, TRUE):
            columns = (batch.column(name).to_pylist() for name in ("partition", "location"))
            yield from (name for name, own in zip(*columns, strict=True) if own is None)

    def _unknown(
        self, table: Table, found: Mapping[str, Sequence[Entry]], known: Mapping[str, Removal]
    ) -> dict[str, list[Entry]]:
        """Return the files that the index lacks or has in another state, and that no running write has.

        Checksum files beside data files are left out.
        """
        without = {name: [e for e in entries if not _is_checksum(e.location.name)] for name, entries in found.items()}
        return self._new_files.unknown(table, without, known)

    def _rename(self, asked: RenamePartition) -> CheckedRename:
        table = self._table
        living = self._living([asked.name, asked.to])
        checked = rules.check_rename(asked, table, living)
        if checked.moves:
            by_id = {partition.partition_id: partition for partition in living}
            moving = [(by_id[moving.partition_id], asked.to) for moving in checked.partitions]
            self._require_cleaned_up(_places(table, [asked.to], (p for p, _ in moving)))
            self._require_empty({asked.to: _location(table, asked.to, None)})
            self._record_moves(table, moving)
        return checked

    def _exchange(self, asked: ExchangePartitions) -> CheckedExchange:
        table = self._table
        source = self._resources.table_of(asked.source_id)
        found = covered_partitions(self._index, self._transaction.plan, source)
        pairs = rules.exchanged_names(table, source, found)
        names = [name for _, name in pairs]
        rules.require_free(table, names, self._living(names))
        moving = [(partition, name) for partition, name in pairs if rules.moves_files(source, partition)]
        _require_same_store(table, source)
        if moving:
            there = _places(source, [], (partition for partition, _ in moving))
            self._require_cleaned_up(there | _places(table, [name for _, name in moving], ()))
        self._require_empty({name: _location(table, name, None) for _, name in moving})
        self._record_moves(source, moving)
        checked = tuple(MovingPartition(p.partition_id, p.begin_version, name) for p, name in pairs)
        return CheckedExchange(asked, checked, source.definition.location, bool(moving))

    def _require_cleaned_up(self, places: Collection[tuple[int, str]]) -> None:
        """Check that no committed write still has files to delete where this command moves files from or to.

        The move could bring files to names that are about to be deleted, or take such files along. Other directories
        are not checked, because a store may forever refuse to delete replaced files there.

        Args:
            places: Pairs of a table's number and a directory, as returned by ``_places``.

        Raises:
            ConflictError: A committed write still has files to delete there.
        """
        transaction = self._transaction
        tables = {number: self._resources.table_of(number) for number, _ in places}

        def concerned(committed: Transaction) -> set[int]:
            return tables.keys() & {committed.table_id, committed.plan.source_id}

        for committed, removal in pending_deletions(self._resources, concerned):
            directory = removal.path.rpartition("/")[0]
            if any((number, _top(tables[number], directory)) in places for number in concerned(committed)):
                raise ConflictError(
                    f"The {transaction.operation} of table {transaction.table} has to wait: the write "
                    f"{committed.transaction_id} to table {committed.table} has committed and is deleting what it "
                    "replaced. Try again; if its process is gone, `catalog-ext recover --older-than 0s` finishes it.",
                    {"table": transaction.table, "transaction": committed.transaction_id},
                )

    def _found(
        self, directories: Mapping[str, Location], *, by_hand: Collection[str]
    ) -> dict[str, tuple[DataFile, ...]]:
        self._require_directories(directories)
        return self._new_files.found(self._table.table_id, directories, by_hand=by_hand)

    def _require_directories(self, directories: Mapping[str, Location]) -> None:
        """Create missing directories inside the table's; a missing directory outside the table's is an error."""
        table = self._table
        root = Location.parse(table.definition.location)
        names = list(directories)
        for name, entry in zip(names, self._storage.stat_many([directories[name] for name in names]), strict=True):
            directory = directories[name]
            parameters = {"table": str(table.identifier), "partition": name[:200], "location": str(directory)}
            if entry is not None and entry.kind is EntryKind.FILE:
                raise InvalidInputError(
                    f"The location {shown(str(directory))} of partition {shown(name)} of table {table.identifier} is a "
                    "file. Give the directory that holds the partition's files.",
                    parameters,
                )
            if entry is not None:
                continue
            if root.contains(directory):
                self._storage.create_directory(directory)
            elif self._storage.store_has_directories(directory) or not self._has_bucket(directory):
                raise LocationNotFoundError(
                    f"The location {shown(str(directory))} of partition {shown(name)} of table {table.identifier} does "
                    "not exist. Make the directory, or correct the location.",
                    parameters,
                )

    def _has_bucket(self, directory: Location) -> bool:
        return self._storage.stat(Location(directory.scheme, directory.bucket, "")) is not None

    def _require_empty(self, directories: Mapping[str, Location]) -> None:
        for name, entries in self._new_files.visible(directories).items():
            if entries:
                raise TableLayoutError(
                    f"The partition {shown(name)} of table {self._table.identifier} cannot be moved to "
                    f"{shown(str(directories[name]))}: files lie there that no partition has, such as "
                    f"{shown(entries[0].location.name)}. Register them (ADD PARTITION), or remove them.",
                    {"table": str(self._table.identifier), "partition": name[:200], "location": str(directories[name])},
                )

    def _moves(self, table: Table, partitions: Iterable[tuple[Partition, str]]) -> Iterable[StagedFile]:
        """Yield the files to move, each with the name of its new partition.

        Unregistered files in the directories, such as success files, are moved too: otherwise the next repair would
        find the old partitions again.
        """
        taken: set[tuple[str, str]] = set()
        for chunk in batched(enumerate(partitions), _PARTITIONS_AT_ONCE):
            files = self._index.living_partitions.files([partition.partition_id for _, (partition, _) in chunk])
            directories = {number: table.directory_of(p) for number, (p, _) in chunk}
            self._refuse_linked(table, {p.name: _location(table, p.name, p.location) for _, (p, _) in chunk})
            contents = self._new_files.contents({str(number): Location.parse(at) for number, at in directories.items()})
            listed = {str(entry.location): entry for entries in contents.values() for entry in entries}
            known: dict[str, Removal] = {}
            # If several directories become one partition, the files of the first directory keep their names.
            for number, (partition, target) in chunk:
                for file in files.get(partition.partition_id, ()):
                    source = f"{directories[number]}/{file.path}"
                    known[source] = Removal(source)
                    path = _free(taken, target, file.path, number)
                    there = listed.get(source, file)
                    yield StagedFile(
                        target, path, file.size, file.rows, source=source, modified_ms=there.modified_ms,
                        etag=there.etag,
                    )  # fmt: skip
            targets = {str(number): target for number, (_, target) in chunk}
            for key, entries in self._unknown(table, contents, known).items():
                for entry in entries:
                    path = _free(taken, targets[key], entry.location.name, int(key))
                    source = str(entry.location)
                    yield StagedFile(
                        targets[key], path, entry.size, source=source, modified_ms=entry.modified_ms, etag=entry.etag
                    )

    def _refuse_linked(self, table: Table, directories: Mapping[str, Location]) -> None:
        root = Location.parse(table.definition.location)
        refuse_linked(self._index, str(table.identifier), root, directories)

    def _record_moves(self, table: Table, partitions: Collection[tuple[Partition, str]]) -> None:
        """Record in the index the files of the partitions that are moved.

        Raises:
            TableLayoutError: A partition that stays, of any table, has one of the files, or two moved partitions share
                a file.
        """
        files = list(self._moves(table, partitions))
        sources = {file.source for file in files if file.source is not None}
        users = self._index.needed_files.users(sources, {partition.partition_id for partition, _ in partitions})
        for file in files:
            if file.source is None:
                continue
            if (user := users.get(file.source)) is not None:
                raise _shared(table, self._transaction.operation, file.source, user.table, user.partition)
            if file.source not in sources:
                raise _shared(table, self._transaction.operation, file.source, str(table.identifier), file.partition)
            sources.remove(file.source)
        # Replace the list of an earlier check: the check may be repeated with another result.
        self._index.transaction_files.replace(self._transaction.transaction_id, files)


def _shared(table: Table, operation: str, source: str, user: str, partition: str) -> TableLayoutError:
    directory = source.rpartition("/")[0]
    of = f"partition {shown(partition)} of table {user}" if partition else f"table {user}"
    return TableLayoutError(
        f"{operation} of table {table.identifier} cannot move the files of {shown(directory)}: {of} has them too, and "
        "would lose its rows. Nothing was changed. Copy the files of one of the two partitions to another "
        "directory and SET LOCATION to that, or copy the rows with INSERT … SELECT.",
        {"table": str(table.identifier), "partition": partition[:200], "location": directory},
    )


def _places(table: Table, names: Iterable[str], partitions: Iterable[Partition]) -> set[tuple[int, str]]:
    """Return pairs of the table's number and a directory (``_top``), for the new names and for the given partitions."""
    coming = {table.directory(name) for name in names}
    there = {table.directory_of(partition) for partition in partitions}
    return {(table.table_id, _top(table, directory)) for directory in coming | there}


def _top(table: Table, directory: str) -> str:
    """Return the topmost directory in the table's that contains ``directory``: a move may remove it if empty."""
    root = f"{table.definition.location}/"
    return root + directory[len(root) :].split("/")[0] if directory.startswith(root) else directory


def _location(table: Table, name: str, own: str | None) -> Location:
    return Location.parse(table.directory(name, own))


def _require_same_store(table: Table, source: Table) -> None:
    other_location, location = Location.parse(table.definition.location), Location.parse(source.definition.location)
    if (other_location.scheme, other_location.bucket) != (location.scheme, location.bucket):
        raise InvalidInputError(
            f"Partitions of table {source.identifier} cannot be moved to table {table.identifier}: "
            f"{shown(str(location))} and {shown(str(other_location))} are on different stores. Copy them by INSERT … "
            "SELECT.",
            {"table": str(table.identifier), "source": str(source.identifier)},
        )


def _free(taken: set[tuple[str, str]], target: str, path: str, number: int) -> str:
    """Return a file's name in its new partition, changed if the name is in use, and add it to ``taken``."""
    # A hidden file must stay hidden under its new name.
    free = path if (target, path) not in taken else f"{path[:1] if is_hidden(path) else ''}{number}-{path}"
    taken.add((target, free))
    return free


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")
