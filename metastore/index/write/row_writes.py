"""Applies INSERT, overwrite and DELETE in ``Commits.apply``: adds, extends, replaces and drops partitions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import bound_predicate, replaced_by
from catalog_ext.metastore.commit.json import staged_file_from_dict, staged_file_to_dict
from catalog_ext.metastore.commit.plan import Append, Overwrite
from catalog_ext.metastore.commit.rules import own_location
from catalog_ext.metastore.commit.staged_files import StoredFile
from catalog_ext.metastore.index.database.schema import partitions, transactions, waiting_files
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.partitions import located_statement
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.index.write.applier import Rewrite
from catalog_ext.metastore.index.write.file_statistics import own_statistics
from catalog_ext.metastore.index.write.fixed_set import FixedSet, require_one_place
from catalog_ext.metastore.index.write.partition_rows import (
    by_values,
    living_files,
    living_of,
    mark_in_metastore,
    matching_numbers,
)
from catalog_ext.metastore.index.write.removals import ReplacedFiles
from catalog_ext.metastore.index.write.reservation_checks import (
    require_in_place,
    require_own_format,
    require_registrable,
)
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, staged_within
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.plan import CheckedWrite
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index.write.applier import Applier
    from catalog_ext.metastore.index.write.fixed_set import LatePartition
    from catalog_ext.metastore.index.write.removals import RecordedDeletions
    from catalog_ext.metastore.model.tables import Partition


_UNKNOWN = StoredFile()
_AT_ONCE = 5000
"""The most partitions whose rows are held in memory at a time."""


@dataclass(slots=True)
class _Outcome:
    """The effect of a write's commit on existing partitions.

    Attributes:
        rewrites: Partitions that are replaced or added to.
        drops: Partitions that are dropped.
        carries: Partitions that changed since ``reserve`` and stay, each with its new files.
        static_stays: Whether an existing partition has the values of the static PARTITION clause, and stays registered.
    """

    rewrites: list[Rewrite] = field(default_factory=list)
    drops: list[Partition] = field(default_factory=list)
    carries: list[tuple[LatePartition, Sequence[DataFile]]] = field(default_factory=list)
    static_stays: bool = False


class RowWrite:
    """Applies one write in the database transaction of its commit.

    Attributes:
        ends_everything: Whether the table's whole previous content is removed, by a deferred delete.
        rows: The number of rows in the files that become visible, including waiting files of earlier batches; None if
            the row count of a file is unknown.
        bytes: The bytes of the same files.
        waiting: The number of partitions whose files are held back until the partitions are due.
    """

    def __init__(self, commit: Commit, write: CheckedWrite, applier: Applier, removals: RecordedDeletions) -> None:
        transaction = commit.transaction
        self._connection = applier.connection
        self._staged = commit.all_files
        self._plan = transaction.plan
        self._id = transaction.transaction_id
        self._app_id = transaction.app_id
        self._base_version = transaction.base_version
        self._write = write
        self._applier = applier
        self._table = applier.table
        self._stored = commit.stored
        self._fixed = FixedSet(self._connection, self._table, transaction.base_version, write.unknown)
        self._replaced = ReplacedFiles(self._plan, write, self._table, removals)
        self.rows: int | None = 0
        self.bytes = 0
        self.waiting = 0
        self.ends_everything = False

    def run(self) -> None:
        """Apply the write; the caller must still call ``flush`` on the applier."""
        if self._write.found:
            # ``found`` are files of other engines: an append to an external table registers them with a partition that
            # it creates.
            there = [(name, self._plan.directory(name), found) for name, found in self._write.found.items()]
            require_registrable(self._connection, self._table, lambda: there, self._base_version, self._id)
        added = self._added_files()
        living = self._living(added)
        self.ends_everything = self._is_all_of_many(living)
        if self.ends_everything:
            # The deferred delete removes all rows that began before this version. So partitions that changed since
            # ``reserve``, and that must stay, need new rows: list them too.
            numbers = {partition.partition_id for partition in living}
            living += [changed for changed in self._fixed.changed() if changed.partition_id not in numbers]
        outcome = self._classified(added, living)
        new = self._new_partitions(added, {partition.name for partition in living}, static_stays=outcome.static_stays)
        adds = [AddPartition(n, (*added.get(n, ()), *self._found(n)), self._location(n)) for n in new]
        marked = mark_in_metastore(self._connection, self._table, adds, outcome.drops)
        others = () if self.ends_everything else self._others({partition.partition_id for partition in living})
        self._take_out(outcome)
        # Partitions that match an overwrite's condition but get no rows may be many: handle them in batches.
        for numbers_of_some in batched(others, _AT_ONCE):
            self._take_out(self._classified({}, living_of(self._connection, numbers_of_some)))
        if self.ends_everything:
            self._applier.end_everything(living)
        self._replaced.remove_unregistered()
        self._applier.add(marked)

    def _is_all_of_many(self, named: Sequence[Partition]) -> bool:
        """Return whether all partitions except the named ones are removed, and are too many to be removed row by row.

        If some partitions have their own location, this returns False: the files to delete then depend on which other
        partitions share a directory.
        """
        asked, keys = self._write.asked, self._table.definition.keys
        if self._plan.definition is not None or not isinstance(asked, Overwrite) or asked.keep_emptied:
            return False
        if not keys or self._write.static_partition is not None or bound_predicate(self._plan, self._table) != TRUE:
            return False
        if self._applier.rows_beside(named) <= deferred_deletes.MANY:
            return False
        return self._connection.execute(located_statement(self._table).limit(1)).first() is None

    def _others(self, named: Collection[int]) -> Sequence[int]:
        """Return the numbers of the partitions, except ``named``, that satisfy an overwrite's condition."""
        if self._plan.definition is not None or isinstance(self._write.asked, Append):
            return ()
        predicate = bound_predicate(self._plan, self._table)
        if predicate is None:
            return ()
        found = matching_numbers(self._connection, self._table, predicate)
        return [number for number in found if number not in named] if named else found

    def _take_out(self, outcome: _Outcome) -> None:
        """Remove the files that existing partitions lose, and add the files that they get."""
        self._replaced.remove([r.partition for r in outcome.rewrites if r.clear], outcome.drops)
        self._replaced.remove_ended(late for late, _ in outcome.carries)
        self._applier.drop(outcome.drops)
        self._applier.rewrite(outcome.rewrites)
        self._applier.carry(outcome.carries, anew=self.ends_everything)

    def _added_files(self) -> dict[str, list[DataFile]]:
        added: dict[str, list[DataFile]] = {}
        kept_back: dict[str, list[StagedFile]] = {}
        held = set(self._write.waiting)
        for file in staged_within(self._connection, self._id) if self._staged is None else self._staged:
            if file.partition in held:
                kept_back.setdefault(file.partition, []).append(file)
            else:
                added.setdefault(file.partition, []).append(self._data_file(file, self._base_version))
        self._keep_back(kept_back)
        for name in self._write.due:
            for base_version, file in self._take_waiting(name):
                added.setdefault(name, []).append(self._data_file(file, base_version))
        visible = [file for files_added in added.values() for file in files_added]
        counts = [f.rows for f in visible if f.rows is not None]
        self.rows = sum(counts) if len(counts) == len(visible) else None
        self.bytes = sum(f.size for f in visible)
        self.waiting = len(kept_back)
        return added

    def _data_file(self, file: StagedFile, base_version: int) -> DataFile:
        modified_ms, etag = self._stored.get((file.partition, file.name), _UNKNOWN)
        statistics = own_statistics(self._table, file.statistics, base_version)
        at = self._applier.now if modified_ms is None else modified_ms
        return DataFile(file.name, file.size, at, file.rows, statistics or None, etag)

    def _keep_back(self, kept_back: Mapping[str, Sequence[StagedFile]]) -> None:
        documents = [
            {
                "table_id": self._table.table_id,
                "name_hash": name_hash(name),
                "transaction_id": self._id,
                "number": number,
                "name": name,
                "since_ms": self._applier.now,
                "n_files": len(chunk),
                "payload": to_json(list(map(staged_file_to_dict, chunk))),
            }
            for name, waiting in kept_back.items()
            for number, chunk in enumerate(batched(waiting, FILES_PER_DOCUMENT))
        ]
        if documents:
            self._connection.execute(sa.insert(waiting_files), documents)

    def _take_waiting(self, name: str) -> list[tuple[int, StagedFile]]:
        """Take the files that earlier batches of the stream held back for a partition off their list; return them.

        Each file comes with the table's version that its batch read.
        """
        w, t = waiting_files.c, transactions.c
        of_partition = (w.table_id == self._table.table_id, w.name_hash == name_hash(name))
        statement = (
            sa.select(w.transaction_id, w.payload, t.base_version)
            .join(transactions, t.transaction_id == w.transaction_id)
            .where(*of_partition, t.app_id == self._app_id)
            .order_by(w.since_ms, w.transaction_id, w.number)
        )
        found = self._connection.execute(statement).all()
        taken = {row.transaction_id for row in found}
        self._connection.execute(sa.delete(waiting_files).where(*of_partition, w.transaction_id.in_(sorted(taken))))
        return [(row.base_version, staged_file_from_dict(value)) for row in found for value in json.loads(row.payload)]

    def _living(self, added: Mapping[str, object]) -> list[Partition]:
        """Return, by name, the existing partitions for which the write has files, or which its clause names."""
        if self._plan.definition is not None:
            return []
        named = sorted({*added, *(() if self._write.static_partition is None else (self._write.static_partition,))})
        if isinstance(self._write.asked, Append):
            return sorted(self._applier.alive(named).values(), key=attrgetter("name"))
        found = by_values(self._connection, self._table, named, partitions.c.end_version == ALIVE)
        return sorted(found, key=attrgetter("name"))

    def _classified(self, added: Mapping[str, list[DataFile]], living: Sequence[Partition]) -> _Outcome:
        """Sort existing partitions into dropped, replaced or extended ones, and those that stay due to later files."""
        is_replaced = replaced_by(self._plan, self._table)
        stays_registered = self._stay_registered(added)
        later = self._fixed.late(partition for partition in living if is_replaced(partition.name))
        outcome = _Outcome()
        for partition in living:
            name = partition.name
            files_added = added.get(name, [])
            replaced = is_replaced(name)
            stays = replaced and stays_registered(name)
            outcome.static_stays = outcome.static_stays or stays
            late = later.get(partition.partition_id)
            if late is not None and late.stays:
                if files_added:
                    require_one_place(self._table, late, self._plan.directory(name))
                outcome.carries.append((late, files_added))
                continue
            if files_added and not (replaced and self._plan.relocate):
                require_in_place(self._plan, self._table, partition)
            if files_added and not replaced:
                require_own_format(self._table, partition)
            if replaced and not files_added and not stays:
                outcome.drops.append(partition)
            else:
                outcome.rewrites.extend(self._rewrites(partition, files_added, replaced=replaced))
        return outcome

    def _rewrites(self, partition: Partition, files_added: Sequence[DataFile], *, replaced: bool) -> list[Rewrite]:
        """Return the change of the files of a partition that the write keeps: one, or none if nothing changes."""
        if not replaced:
            files_added = [*files_added, *self._found_for_living(partition)]
            return [Rewrite(partition, files_added)] if files_added else []
        is_ours = partition.descriptor is None
        if is_ours and not (files_added or partition.files or self._plan.relocate):
            return []
        location = self._location(partition.name) if self._plan.relocate else None
        return [Rewrite(partition, files_added, clear=True, location=location)]

    def _new_partitions(self, added: Mapping[str, object], living: Collection[str], *, static_stays: bool) -> list[str]:
        """Return the new partitions: those with files, and the static one if no partition with its values stays."""
        new = [name for name in added if name not in living]
        static = self._write.static_partition
        if static is not None and static not in added and static not in living and not static_stays:
            new.append(static)
        return new

    def _stay_registered(self, added: Mapping[str, object]) -> Callable[[str], bool]:
        """Return a function that says whether a replaced partition without new files stays registered, empty."""
        keys = self._table.definition.keys
        if not keys or (isinstance(self._write.asked, Overwrite) and self._write.asked.keep_emptied):
            return lambda _: True
        static = self._write.static_partition
        if static is None or static in added:
            return lambda _: False
        digest = claim_hash(typed_values(static, keys), keys)
        return lambda name: claim_hash(typed_values(name, keys), keys) == digest

    def _location(self, name: str) -> str | None:
        """Return the location of a partition's new files if it is not the default directory; otherwise None."""
        return own_location(self._table, name, self._plan.directory(name))

    def _found(self, name: str) -> list[DataFile]:
        if not isinstance(self._write.asked, Append):
            return []
        return list(self._write.found.get(name, ()))

    def _found_for_living(self, partition: Partition) -> list[DataFile]:
        """Return visible files to add to a partition that was new at ``check``, and that exists now.

        A repair, for example, has registered the partition and some of the files since then.
        """
        found = self._found(partition.name)
        if not found:
            return []
        living = living_files(self._connection, [partition.partition_id]).get(partition.partition_id, ())
        present = {file.path for file in living}
        return [file for file in found if file.path not in present]
