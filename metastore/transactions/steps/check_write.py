"""The check of a write: its staged files, the directories that it replaces, and files that earlier epochs held back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_commit import Decision, PartitionCommit
from catalog_ext.metastore.commit.plan import (
    MISMATCH,
    Append,
    CheckedWrite,
    Create,
    CreateOrReplace,
    Overwrite,
    Replace,
)
from catalog_ext.metastore.commit.staged_files import FILES_AT_ONCE
from catalog_ext.metastore.errors import InvalidInputError, TableLayoutError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.promotion import check_staged, check_targets
from catalog_ext.metastore.transactions.linked_directories import refuse_linked, refuse_other_case
from catalog_ext.metastore.transactions.new_files import NewFiles
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.steps.replaced_directories import ReplacedDirectories, covered_names
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.plan import AskedWrite, WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile, Table
    from catalog_ext.metastore.transactions.resources import Resources


class WriteCheck:
    """The check of one write; create an object per check. It changes nothing.

    Args:
        commit: The commit, whose transaction is open.
    """

    def __init__(self, resources: Resources, commit: Commit) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage
        self._new_files = NewFiles(resources)
        self._waiting = Waiting(resources)
        self._commit = commit
        self._transaction = commit.transaction
        self._table_id = commit.transaction.table_id or 0
        self._locations = StagingLocations(commit.transaction_id, commit.plan)
        self._loaded = commit.table
        self._known: dict[str, bool] = {}

    def checked(self, asked: AskedWrite) -> WritePlan:
        """Return the plan with the findings of the check.

        Raises:
            StagedFileMissingError: A staged file does not exist with its size.
            WaitingFilesMissingError: A file that waited for its partition to be due is gone.
            InvalidInputError: A partition's name does not fit the table.
            TableNotFoundError: The table was dropped.
            StorageError: The store refuses or does not answer.
        """
        places: set[Location] = set()
        names = self._staged_partitions(places)
        decision = self._partition_commit(names)
        static = {self._static} if self._static is not None else set()
        visible = (names - {*decision.waiting}) | {*decision.due}
        self._check_targets(names, places)
        plan = self._with_locations(names | {*decision.due} | static, {*decision.due} | static)
        self._check_places(plan, {*names, *decision.due} | static, decision.due)
        if isinstance(asked, Overwrite) and (plan.relocate or not asked.adds_others):
            self._refuse_others(plan, asked, names)
        # Read the old table before any listing. The commit then detects files that are registered later, which the
        # listing missed.
        old = self._resources.target_table(self._transaction) if isinstance(asked, Replace | CreateOrReplace) else None
        found: Mapping[str, tuple[DataFile, ...]] = {}
        unknown: Mapping[str, tuple[Removal, ...]] = {}
        nothing_there = False
        if isinstance(asked, Append):
            found, nothing_there = self._found(visible)
        elif not (plan.relocate or isinstance(asked, Create)):
            replaced = ReplacedDirectories(self._resources, self._transaction, plan)
            unknown = replaced.unknown(asked, names | static, old)
        # If all written partitions are new and their directories have no files, skip the slow search in the history for
        # files that relocations left there.
        if not plan.relocate and plan.definition is None and not (nothing_there and static <= visible):
            unknown = self._with_left(visible | static, unknown)
        published = tuple(sorted(visible)) if plan.partition_commit and self._policies().acts else ()
        write = CheckedWrite(
            asked, self._static, decision.waiting, decision.due, published, found=found, unknown=unknown,
            replaced_version=None if old is None else old.version,
        )  # fmt: skip
        return replace(plan, change=write)

    @property
    def _static(self) -> str | None:
        return self._commit.options.static_partition

    def _table(self) -> Table:
        """Return the table, loaded once. If a partition is created or moved later, ``reserve`` detects the conflict.

        Raises:
            TableNotFoundError: The table was dropped.
        """
        if self._loaded is None:
            self._loaded = self._resources.table(self._transaction)
        return self._loaded

    def _check_places(self, plan: WritePlan, names: Collection[str], due: Collection[str]) -> None:
        """Check that no other partition has a written directory, and that no file held back for later is gone."""
        transaction = self._transaction
        self._refuse_shared(plan, names)
        directories = {name: Location.parse(plan.directory(name)) for name in names}
        if plan.definition is None:
            refuse_linked(self._index, transaction.table, Location.parse(plan.location), directories)
        else:
            refuse_other_case(transaction.table, Location.parse(plan.location), directories)
        self._waiting.check(self._table_id, transaction.table, transaction.app_id, due, plan.directory)

    def _refuse_shared(self, plan: WritePlan, names: Collection[str]) -> None:
        """Refuse to put files into another partition's directory: engines would read them as rows of both."""
        if not plan.beside_located or plan.relocate:
            return
        table = self._resources.table(self._transaction)
        directories = {plan.directory(name): name for name in names}
        for directory, there in sorted(self._index.partitions.at(table, directories).items()):
            others = there - {directories[directory]}
            if others:
                name, other = directories[directory], min(others)
                raise TableLayoutError(
                    f"Rows for partition {shown(name)} of table {table.identifier} would go to {shown(directory)}, "
                    f"where partition {shown(other)} lies: each partition would also contain the other's rows. "
                    f"Nothing was written. Give {shown(other)} a directory of its own: move its files, and ALTER "
                    f"TABLE {table.identifier} PARTITION (…) SET LOCATION '…'.",
                    {"table": self._transaction.table, "partition": name[:200], "location": directory},
                )

    def _with_locations(self, targets: Collection[str], others: Collection[str]) -> WritePlan:
        """Return the plan with the locations of all partitions that may get files.

        ``others`` are partitions whose locations no task of the write has asked for.
        """
        plan = self._commit.plan
        if plan.asks_locations:
            # Keep all locations that tasks have asked for: a task that was lost may have left a file in any of them.
            found = self._resources.locations(self._transaction, others) if others else {}
            return replace(plan, locations={**found, **plan.locations})
        return replace(plan, locations={name: own for name, own in plan.locations.items() if name in targets})

    def _staged_partitions(self, places: set[Location]) -> set[str]:
        """Return the partitions of the staged files; check that each file exists with its size.

        Args:
            places: The directories of the files that LOAD DATA moves are added to this set.
        """
        names: set[str] = set()
        for batch in batched(self._resources.staged_files(self._commit), FILES_AT_ONCE):
            names.update(file.partition for file in batch)
            located = [self._locations.locate(file) for file in batch]
            check_staged(self._storage, located)
            if self._commit.plan.moves_user_files:
                places.update(file.source.parent for file in located if file.source is not None)
        return names

    def _check_targets(self, names: set[str], places: Collection[Location]) -> None:
        """Check that files can be moved to their partitions from the staging directory or, in LOAD DATA, ``places``."""
        plan, locations = self._commit.plan, self._locations
        if plan.moves_user_files:
            for place in places:
                check_targets(self._storage, {locations.directory(name) for name in names}, place)
            return
        if any(name not in plan.locations for name in names):
            (staging, *_) = locations.staging_directories() or [locations.location]
            targets = {locations.directory(name) for name in names if name not in plan.locations}
            check_targets(self._storage, targets, staging)

    def _policies(self) -> PartitionCommit:
        keys = [column.name for column in self._resources.definition(self._transaction).partition_columns]
        return PartitionCommit.of(self._commit.plan.partition_commit, keys)

    def _partition_commit(self, names: Collection[str]) -> Decision:
        options = self._commit.options
        if options.watermark_ms is None and not options.final:
            return Decision()
        policies = self._policies()
        waiting: dict[str, int] = {}
        for left in self._waiting.documents(self._table_id, self._transaction.app_id):
            waiting[left.partition] = min(left.since_ms, waiting.get(left.partition, left.since_ms))
        # Read the database's clock only if earlier epochs have held back files: the times of these files come from that
        # clock.
        now = self._resources.now_ms() if waiting else 0
        return policies.decide(names, waiting, watermark_ms=options.watermark_ms, final=options.final, now_ms=now)

    def _refuse_others(self, plan: WritePlan, asked: Overwrite, names: set[str]) -> None:
        """Refuse rows that do not match the overwrite's condition, and overwrites that would split a partition.

        A relocating overwrite puts files into new directories, but a partition to which it only adds rows keeps its
        directory.
        """
        transaction, table = self._transaction, self._resources.table(self._transaction)
        other_partitions = names - covered_names(plan, table, names)
        if other_partitions and not asked.adds_others:
            raise InvalidInputError(
                f"The overwrite of table {transaction.table} has rows of {_counted(other_partitions)}, which its "
                "condition is not true for: they would be added to what is there. Nothing was written. Mend the rows "
                f"or the condition, or let them through by {MISMATCH} = add.",
                {"table": transaction.table, "partition": min(other_partitions)[:200]},
            )
        if not plan.relocate:
            return
        partitions = other_partitions - self._new_directories(other_partitions).keys()
        if partitions:
            raise InvalidInputError(
                f"The overwrite of table {transaction.table} adds rows to {shown(min(partitions))}, which its "
                "condition does not cover, and relocates what it covers: a partition cannot lie in two places. Write "
                "those rows by an INSERT of their own, or use overwrite-mode 'in-place'.",
                {"table": transaction.table, "partition": min(partitions)[:200]},
            )

    def _found(self, names: Collection[str]) -> tuple[Mapping[str, tuple[DataFile, ...]], bool]:
        """Return the visible files in the directories of partitions that an append to an external table creates.

        The second value is True if all directories of new partitions were listed and none has a visible file.
        """
        if not names or self._table().definition.table_type is not TableType.EXTERNAL:
            return {}, False
        directories = self._new_directories(names)
        if not directories:
            return {}, True
        found = self._new_files.found(self._table().table_id, directories, existing=False)
        return {name: files for name, files in found.items() if files}, not found

    def _with_left(
        self, names: Collection[str], unknown: Mapping[str, tuple[Removal, ...]]
    ) -> Mapping[str, tuple[Removal, ...]]:
        """Return ``unknown`` with the files that relocations left in the directories of partitions that are created."""
        if not names or not self._table().definition.partition_columns:
            return unknown
        directories = self._new_directories(names)
        left = self._new_files.left(self._table(), directories) if directories else {}
        if left:
            self._new_files.require_not_held(self._table(), {name: directories[name] for name in left})
        left = self._new_files.unneeded(self._table(), left, directories) if left else {}
        merged = dict(unknown)
        for name, removals in left.items():
            there = merged.get(name, ())
            known = {removal.path for removal in there}
            merged[name] = (*there, *(removal for removal in removals if removal.path not in known))
        return merged

    def _new_directories(self, names: Collection[str]) -> dict[str, Location]:
        """Return the directories of the partitions that the table does not have yet."""
        unasked = sorted(name for name in names if name not in self._known)
        if unasked:
            there = self._index.partitions.existing(self._table(), unasked)
            self._known.update((name, name in there) for name in unasked)
        return {name: self._locations.directory(name) for name in names if not self._known[name]}


def _counted(names: Collection[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"the partition {shown(min(names))}{more}"
