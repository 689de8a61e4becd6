"""Applies partition commands (ADD, DROP, RENAME, SET LOCATION, EXCHANGE, rollback) in ``Commits.apply``.

They act on the partitions as these were at ``reserve``: partitions and files that were registered later stay.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING

import sqlalchemy as sa
from typing_extensions import assert_never

from catalog_ext.metastore.commit import rules
from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.file_identity import indexed_file, is_unchanged
from catalog_ext.metastore.commit.partition_plans import (
    CheckedAdd,
    CheckedDrop,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    CheckedRollback,
)
from catalog_ext.metastore.commit.plan import Promotion
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import VACUUM
from catalog_ext.metastore.index.database.rows import FILE, file_of
from catalog_ext.metastore.index.database.schema import file_statistics, files, partitions, transactions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.tables.dropped import any_undeleted, check_location_free, hold_tables_around
from catalog_ext.metastore.index.write.applier import Applier, Rewrite
from catalog_ext.metastore.index.write.file_statistics import own_statistics
from catalog_ext.metastore.index.write.fixed_set import FixedSet
from catalog_ext.metastore.index.write.partition_descriptors import of_numbers
from catalog_ext.metastore.index.write.partition_rows import (
    by_values,
    living_files,
    living_of,
    mark_in_metastore,
    matching,
)
from catalog_ext.metastore.index.write.reservation_checks import require_registrable
from catalog_ext.metastore.index.write.rollback_rows import RollbackRows
from catalog_ext.metastore.index.write.transaction_files import staged_within
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.json import statistics_from_dict
from catalog_ext.metastore.model.tables import DataFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.partition_plans import CheckedCommand, MovingPartition
    from catalog_ext.metastore.commit.staged_files import StagedFile, StoredFile
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.index.write.removals import RecordedDeletions
    from catalog_ext.metastore.model.tables import Partition, Table

_AT_ONCE = 500


class PartitionCommand:
    """Applies one partition command in the database transaction of its commit.

    Args:
        commit: The commit, with the store's data about moved files.
        applier: The table's applier, in a transaction that holds the locks of the table's row and, for an exchange, of
            the source table's row.
        source_row: The row of an exchange's source table; None for other commands.
        removals: Collects the files to be deleted.
    """

    def __init__(
        self, commit: Commit, applier: Applier, source_row: TableRow | None, removals: RecordedDeletions
    ) -> None:
        self._commit = commit
        self._connection = applier.connection
        self._plan = commit.plan
        self._id = commit.transaction_id
        self._base_version = commit.transaction.base_version
        self._applier = applier
        self._table = applier.table
        self._removals = removals
        self._stored = commit.stored
        self.source = None if source_row is None else Applier(applier.connection, source_row.raised())

    def run(self, command: CheckedCommand) -> None:
        """Apply the command; the caller must still call ``flush`` on the table's own applier.

        Raises:
            PartitionAlreadyExistsError, PartitionNotFoundError, ConflictError: The table has changed since the command
                was checked.
            VersionExpiredError: Vacuum has removed the version of a rollback.
        """
        match command:
            case CheckedAdd():
                self._add(command)
            case CheckedDrop():
                self._drop(command)
            case CheckedRename():
                self._rename(command)
            case CheckedRelocate():
                self._relocate(command)
            case CheckedExchange():
                assert self.source is not None
                self._exchange(command, self.source)
            case CheckedRollback():
                RollbackRows(self._commit, self._applier, self._removals).run(command)
            case _:
                assert_never(command)

    def _add(self, command: CheckedAdd) -> None:
        there = self._living([partition.name for partition in command.partitions])
        registered = self._registered_meanwhile(command, there)
        left = [partition for partition in command.partitions if partition.name not in registered]
        others = [partition for partition in there if partition.name not in registered]
        wanted = rules.partitions_to_add(command.asked, self._table, left, others)
        self._applier.rewrite(self._with_found(command, registered))
        self._check_locations({p.name: p.location for p in wanted if p.location is not None})
        self._require_unclaimed({p.name: (p.location, command.found.get(p.name, ())) for p in wanted})
        adds = [
            AddPartition(p.name, command.found.get(p.name, ()), rules.own_location(self._table, p.name, p.location))
            for p in wanted
        ]
        self._applier.add(mark_in_metastore(self._connection, self._table, adds, ()))

    def _registered_meanwhile(self, command: CheckedAdd, there: Sequence[Partition]) -> dict[str, Partition]:
        """Return the partitions, by name, that a repair or the follower has registered since the base version.

        They fulfil the command: they are the same partitions in the same directories.
        """
        wanted = {p.name: p.location or self._table.directory(p.name) for p in command.partitions}
        later = {
            partition.name: partition
            for partition in there
            if partition.begin_version > self._base_version
            and wanted.get(partition.name) == self._table.directory_of(partition)
        }
        if not later:
            return {}
        t = transactions.c
        versions = {partition.begin_version for partition in later.values()}
        # A vacuum's transaction carries the number of a version that it did not make: leave it out.
        statement = sa.select(t.version).where(
            t.table_id == self._table.table_id, t.version.in_(sorted(versions)), t.operation != VACUUM
        )
        by_statements = set(self._connection.execute(statement).scalars())
        return {name: found for name, found in later.items() if found.begin_version not in by_statements}

    def _with_found(self, command: CheckedAdd, registered: Mapping[str, Partition]) -> list[Rewrite]:
        """Return the changes that add files which the command's check found and which are not registered yet."""
        changes: list[Rewrite] = []
        for name, partition in registered.items():
            present = {file.path for file in self._files_of(partition)}
            if missing := [file for file in command.found.get(name, ()) if file.path not in present]:
                changes.append(Rewrite(partition, missing))
        return changes

    def _files_of(self, partition: Partition) -> list[DataFile]:
        return living_files(self._connection, [partition.partition_id]).get(partition.partition_id, [])

    def _check_locations(self, own: Mapping[str, str]) -> None:
        hold_tables_around(self._connection, list(own.values()))
        if own and any_undeleted(self._connection):
            for name, location in own.items():
                check_location_free(self._connection, self._table.identifier, location, name)

    def _require_unclaimed(self, found: Mapping[str, tuple[str | None, Sequence[DataFile]]]) -> None:
        """Check that no transaction deletes the files to be registered, given by partition with location.

        Raises:
            DeletedFilesError: A file is being deleted, or may have been since it was listed.
        """
        there = [(name, self._table.directory(name, place), added) for name, (place, added) in found.items() if added]
        if there:
            require_registrable(self._connection, self._table, lambda: there, self._base_version, self._id)

    def _living(self, names: Sequence[str]) -> list[Partition]:
        """Return the table's current partitions whose values equal those of one of the names."""
        return list(by_values(self._connection, self._table, names, partitions.c.end_version == ALIVE))

    def _drop(self, command: CheckedDrop) -> None:
        predicate = bound_predicate(self._plan, self._table)
        assert predicate is not None
        matched = list(matching(self._connection, self._table, predicate))
        later = FixedSet(self._connection, self._table, self._base_version, command.unknown).late(matched)
        carried = [late for late in later.values() if late.stays]
        stay = {late.partition.partition_id for late in carried}
        living = [partition for partition in matched if partition.partition_id not in stay]
        gone = {p.partition_id: self._table.directory_of(p) for p in living if self._deletes(command, p)}
        for partition in living:
            if partition.partition_id in gone:
                directory = gone[partition.partition_id]
                self._removals.add_in(directory, command.unknown.get(partition.name, ()))
                self._removals.add(Removal(f"{directory}/"))
        self._removals.add_files(gone)
        for late in carried:
            if self._deletes(command, late.partition):
                directory = self._table.directory_of(late.partition)
                self._removals.add_in(directory, command.unknown.get(late.partition.name, ()))
                self._removals.add_ended(directory, late.ended)
        self._applier.drop(living)
        self._applier.carry([(late, ()) for late in carried])

    def _deletes(self, command: CheckedDrop, partition: Partition) -> bool:
        return rules.deletes(command.asked, self._table, self._table.directory_of(partition))

    def _relocate(self, command: CheckedRelocate) -> None:
        name = command.asked.name
        living = rules.partitions_of(self._table, name, self._living([name]))
        # Several directories may have the same values. One of them stays; it is the one that the metastore has, if any.
        first, *others = rules.staying(living, name)
        # Do not drop a directory with these values that was registered after ``reserve``: the statement has not seen
        # it.
        others = [other for other in others if other.begin_version <= self._base_version]
        own = rules.own_location(self._table, first.name, command.location)
        self._check_locations({} if own is None else {first.name: own})
        self._require_unclaimed({first.name: (own, command.found)})
        self._applier.drop(others)
        self._applier.rewrite([Rewrite(first, command.found, clear=True, location=own, moved=True)])

    def _rename(self, command: CheckedRename) -> None:
        target = command.asked.to
        living = self._as_checked(self._table, command.partitions, lambda _: command.moves)
        rules.require_free(self._table, [target], self._living([target]))
        first, *others = living
        added: list[DataFile] = []
        if command.moves:
            self._remove_sources(self._table, living)
            self._set_stored(first, target)
            added = [file for other in others for file in self._moved_files(self._table, other, target)]
        (probe,) = mark_in_metastore(self._connection, self._table, [AddPartition(target, ())], living)
        self._applier.drop(others)
        own = None if command.moves else rules.own_location(self._table, target, self._table.directory_of(first))
        self._applier.rename(first, target, added, location=own, in_metastore=probe.in_metastore)

    def _exchange(self, command: CheckedExchange, taken_from: Applier) -> None:
        source = taken_from.table
        names = {moving.partition_id: moving.name for moving in command.partitions}
        living = self._as_checked(source, command.partitions, lambda partition: rules.moves_files(source, partition))
        rules.require_free(self._table, list(names.values()), self._living(list(names.values())))
        moving = [partition for partition in living if rules.moves_files(source, partition)]
        self._remove_sources(source, moving)
        moved = {partition.partition_id for partition in moving}
        # Partitions whose names differ only in the case of a key become one partition.
        alike: dict[str, list[Partition]] = {}
        for partition in living:
            alike.setdefault(names[partition.partition_id], []).append(partition)
        numbers = {partition.descriptor for partition in living if partition.descriptor is not None}
        described = of_numbers(self._connection, source.table_id, numbers)
        adds = [
            AddPartition(
                name,
                tuple(file for one in same for file in self._moved_files(source, one, name)),
                None if same[0].partition_id in moved else source.directory_of(same[0]),
                descriptor=None if same[0].descriptor is None else described[same[0].descriptor],
            )
            for name, same in alike.items()
        ]
        taken_from.drop(living)
        taken_from.flush()
        self._applier.add(mark_in_metastore(self._connection, self._table, adds, ()))

    def _as_checked(
        self, table: Table, planned: Sequence[MovingPartition], moved: Callable[[Partition], bool]
    ) -> list[Partition]:
        """Return the current partitions that ``check`` found, in its order, if they have not changed since.

        Raises:
            ConflictError: A partition has changed.
        """
        chunks = batched([moving.partition_id for moving in planned], _AT_ONCE)
        found = [partition for chunk in chunks for partition in living_of(self._connection, chunk)]
        return rules.as_checked(table, planned, found, moved)

    def _remove_sources(self, table: Table, moving: Iterable[Partition]) -> None:
        """Record for removal what the moved files leave at their old locations.

        On S3 these are the copied files; elsewhere only checksum files and empty directories.
        """
        for source, file in self._moved.items():
            if self._plan.promotion is Promotion.UPLOAD:
                self._removals.add(Removal(source, file.size, file.modified_ms, file.etag))
            else:
                # Do not record the file itself: the rename moved it away, so a file of that name now was written by
                # another command.
                directory, _, name = source.rpartition("/")
                self._removals.add(Removal(f"{directory}/.{name}.crc"))
        for partition in moving:
            self._removals.add(Removal(f"{table.directory_of(partition)}/"))

    @cached_property
    def _moved(self) -> Mapping[str, StagedFile]:
        """The files that the command has moved, by their old URIs."""
        staged = staged_within(self._connection, self._id)
        return {file.source: file for file in staged if file.source is not None}

    def _stored_as_indexed(self, target: str, path: str, recorded: Removal) -> StoredFile | None:
        """Return the store's data about a moved file; None if the file was rewritten before it was moved.

        In that case the index keeps the old time and ETag, as well as row counts and statistics, and the next repair
        detects the change.
        """
        stored, moved = self._stored.get((target, path)), self._moved.get(recorded.path)
        if stored is None or moved is None:
            return stored
        return stored if is_unchanged(recorded, moved.size, moved.modified_ms, moved.etag) else None

    def _set_stored(self, partition: Partition, target: str) -> None:
        """Record the times and ETags of moved files in the rows of the files that stay in their partition."""
        f = files.c
        directory = self._table.directory_of(partition)
        changed = [
            {"p": partition.partition_id, "moved": file.path, "at": stored.modified_ms, "etag": stored.etag}
            for file in self._files_of(partition)
            if (stored := self._stored_as_indexed(target, file.path, indexed_file(f"{directory}/{file.path}", file)))
        ]
        if changed:
            statement = (
                sa.update(files)
                .where(f.partition_id == sa.bindparam("p"), f.path == sa.bindparam("moved"), f.end_version == ALIVE)
                .values(modified_ms=sa.bindparam("at"), etag_hash=sa.bindparam("etag"))
            )
            self._connection.execute(statement, changed)

    def _moved_files(self, table: Table, partition: Partition, target: str) -> Iterator[DataFile]:
        """Yield a partition's files as files of its target partition, with their known times, ETags and statistics."""
        f, s = files.c, file_statistics.c
        statement = (
            sa.select(f.begin_version, s.statistics, *FILE)
            .select_from(
                files.outerjoin(file_statistics, sa.and_(s.partition_id == f.partition_id, s.file_id == f.file_id))
            )
            .where(f.partition_id == partition.partition_id, f.end_version == ALIVE)
            .order_by(f.file_id)
        )
        directory = table.directory_of(partition)
        for begin_version, statistics, *row in self._connection.execute(statement):
            file = file_of(row)
            uri = f"{directory}/{file.path}"
            path = self._moved[uri].name if uri in self._moved else file.path
            stored = self._stored_as_indexed(target, path, indexed_file(uri, file))
            at, etag = stored or (file.modified_ms, file.etag)
            found = {} if statistics is None else statistics_from_dict(json.loads(statistics))
            known = own_statistics(table, found, begin_version)
            yield DataFile(path, file.size, file.modified_ms if at is None else at, file.rows, known or None, etag)
