"""The files that must be deleted from the store after a commit, recorded with its transaction until the clean-up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.file_identity import indexed_file
from catalog_ext.metastore.commit.partition_commit import PartitionCommit, PolicyKind
from catalog_ext.metastore.commit.plan import CheckedWrite
from catalog_ext.metastore.commit.removals import Removal, removal_from_json, removal_to_json
from catalog_ext.metastore.index.database.rows import FILE, file_of
from catalog_ext.metastore.index.database.schema import files, partitions, transaction_files
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.spellings import Spellings, by_name
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, add_documents
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index.write.fixed_set import LatePartition
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table

_PARTITIONS_AT_ONCE = 500
_REMOVALS_AT_ONCE = 20 * FILES_PER_DOCUMENT


class RecordedDeletions:
    """The files and the empty directories that a transaction must delete, by URI; they are written in batches."""

    def __init__(self, connection: sa.Connection, transaction_id: str) -> None:
        self._connection = connection
        self._id = transaction_id
        self._taken: list[Removal] = []
        self._as_found: set[str] = set()
        self._written = False

    @property
    def are_none(self) -> bool:
        """Whether nothing was recorded."""
        return not (self._taken or self._written)

    def add(self, removal: Removal) -> None:
        """Record a file to be deleted; if the buffer is full, write it to the database."""
        self._taken.append(removal)
        if len(self._taken) == _REMOVALS_AT_ONCE:
            self.flush()

    def add_in(self, directory: str, removals: Iterable[Removal]) -> None:
        """Record files of a directory as they were listed on the store, given by name.

        ``add_ended`` does not record these files again from the index's data.
        """
        for removal in removals:
            uri = f"{directory}/{removal.path}"
            self._as_found.add(uri)
            self.add(replace(removal, path=uri))

    def pass_over(self, directory: str, removals: Iterable[Removal]) -> None:
        """Mark listed files of a directory as handled, so that ``add_ended`` does not record them."""
        self._as_found.update(f"{directory}/{removal.path}" for removal in removals)

    def add_files(self, directories: Mapping[int, str]) -> None:
        """Record all current files of partitions, given by number and directory."""
        f = files.c
        for some in batched(directories, _PARTITIONS_AT_ONCE):
            statement = sa.select(f.partition_id, *FILE).where(f.partition_id.in_(some), f.end_version == ALIVE)
            for partition_id, *row in self._connection.execute(statement).all():
                self.add_ended(directories[partition_id], [file_of(row)])

    def add_ended(self, directory: str, ended: Iterable[DataFile]) -> None:
        """Record removed files of a directory from the index's data, except those already recorded or handled."""
        for file in ended:
            uri = f"{directory}/{file.path}"
            if uri not in self._as_found:
                self.add(indexed_file(uri, file))

    def spare(self, table: Table) -> None:
        """Remove from the list the files that the table's current partitions still have: several may share a directory.

        Call it after the changes of the commit and all its removals are written.
        """
        if not self._written:
            return
        p, t = partitions.c, transaction_files.c
        # Partitions that end in this version count too. Of two partitions in one directory, at least one has its own
        # location (not the default directory); without such a partition, no search is needed.
        own = sa.exists().where(
            p.table_id == table.table_id, p.location.is_not(None), p.end_version >= table.version
        )  # fmt: skip
        mine = (t.transaction_id == self._id, t.removal == 1)
        if not self._connection.execute(sa.select(own)).scalar():
            return
        spellings = Spellings(self._connection)
        for number in self._connection.execute(sa.select(t.number).where(*mine)).scalars().all():
            which = sa.and_(*mine, t.number == number)
            document = self._connection.execute(sa.select(t.payload).where(which)).scalar_one()
            found = [removal_from_json(value) for value in json.loads(document)]
            kept = self._living(table, {removal.path.rpartition("/")[0] for removal in found}, spellings)
            left = [removal for removal in found if removal.is_directory or removal.path not in kept]
            if len(left) < len(found):
                payload = to_json([removal_to_json(removal) for removal in left])
                changed = sa.update(transaction_files).where(which).values(n_files=len(left), payload=payload)
                self._connection.execute(changed)

    def _living(self, table: Table, directories: Collection[str], spellings: Spellings) -> set[str]:
        """Return the URIs of current files in the directories.

        A partition may record a directory under another path (a symbolic link); these files are found too.
        """
        wanted = by_name(directories, spellings.of(directories))
        p, f, root = partitions.c, files.c, f"{table.definition.location}/"
        columns = sa.select(p.name, p.location, f.path).join(files, f.partition_id == p.partition_id)
        living = columns.where(p.table_id == table.table_id, p.end_version == ALIVE, f.end_version == ALIVE)
        found: set[str] = set()
        for some in batched(sorted(wanted), _PARTITIONS_AT_ONCE):
            hashes = [name_hash(uri.removeprefix(root)) for uri in some if uri.startswith(root)]
            for which in (p.location.in_(some), sa.and_(p.location.is_(None), p.name_hash.in_(hashes))):
                for name, location, path in self._connection.execute(living.where(which)):
                    found.update(f"{place}/{path}" for place in wanted.get(table.directory(name, location), ()))
        return found

    def flush(self) -> None:
        """Write the buffered files to be deleted to the database."""
        if self._taken:
            documents = (
                (len(some), to_json([removal_to_json(removal) for removal in some]))
                for some in batched(self._taken, FILES_PER_DOCUMENT)
            )
            add_documents(self._connection, self._id, documents, removal=True)
            self._written = True
            self._taken = []


class ReplacedFiles:
    """Records the files of the partitions that one write replaces, for deletion."""

    def __init__(self, plan: WritePlan, write: CheckedWrite, table: Table, removals: RecordedDeletions) -> None:
        self._plan = plan
        self._table = table
        self._removals = removals
        self._unregistered = dict(write.unknown)
        self._policies = PartitionCommit.of(plan.partition_commit, [key.name for key in table.definition.keys])

    def remove(self, cleared: Sequence[Partition], drops: Sequence[Partition]) -> None:
        """Record for deletion the files of ``cleared`` partitions, which stay, and of dropped ones (``drops``)."""
        self._remove_files([*cleared, *drops])
        self._remove_directories(drops)
        if self._plan.relocate:
            # A relocating overwrite leaves the old files, and records only empty old directories: if the partition is
            # later dropped from its new location, a repair would register the old directory again.
            for partition in cleared:
                if not partition.files:
                    self._removals.add(Removal(f"{self._table.directory_of(partition)}/"))

    def remove_ended(self, late: Iterable[LatePartition]) -> None:
        """Record for deletion the files that partitions had at ``reserve``, if only files registered later stay."""
        if self._plan.relocate:
            return
        for each in late:
            self._remove_unknown(each.partition)
            self._removals.add_ended(self._table.directory_of(each.partition), each.ended)

    def _remove_unknown(self, partition: Partition) -> None:
        if partition.name in self._unregistered:
            found = self._unregistered.pop(partition.name)
            self._removals.add_in(self._table.directory_of(partition), found)

    def _remove_files(self, ended: Sequence[Partition]) -> None:
        """Record for deletion all files of the partitions, and files in their directories that the index does not know.

        A relocating overwrite deletes nothing, so it records nothing.
        """
        if self._plan.relocate:
            return
        for partition in ended:
            self._remove_unknown(partition)
        self._removals.add_files({p.partition_id: self._table.directory_of(p) for p in ended})

    def remove_unregistered(self) -> None:
        """Record for deletion the files that the index does not know in the directories of new partitions."""
        if not self._plan.relocate:
            for name, files_there in self._unregistered.items():
                self._removals.add_in(self._table.directory(name), files_there)

    def _remove_directories(self, drops: Sequence[Partition]) -> None:
        """Record for deletion the empty directories of dropped partitions, which a repair would register again.

        The success file that the table's ``partition-commit`` policy has written there (a mark that the partition is
        complete) is recorded too.
        """
        for partition in drops:
            directory = self._table.directory_of(partition)
            if PolicyKind.SUCCESS_FILE in self._policies.policies:
                self._removals.add(Removal(f"{directory}/{self._policies.success_file}", size=0))
            if not partition.files:
                self._removals.add(Removal(f"{directory}/"))


def list_deferred(
    connection: sa.Connection, table: Table, transaction_id: str, plan: WritePlan, ended: Sequence[Partition]
) -> None:
    """Record for deletion the files of some partitions that a deferred delete removes."""
    assert isinstance(plan.change, CheckedWrite), "only a write defers its deletes"
    removals = RecordedDeletions(connection, transaction_id)
    for name, found in plan.change.unknown.items():
        # The commit has recorded these files already, as they were listed.
        removals.pass_over(table.directory(name), found)
    ReplacedFiles(plan, replace(plan.change, unknown={}), table, removals).remove((), ended)
    removals.flush()
