"""The step before ``reserve``: are the staged files there, and what lies in the directories that the write will own?"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate, covers
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
from catalog_ext.metastore.errors import InvalidInputError, LocationNotFoundError, TableLayoutError, TableNotFoundError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import parse_partition_name
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.tree import TRUE, And, Comparison, IsNull, Operator, Or, Predicate, bind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.promotion import check_staged, check_targets
from catalog_ext.metastore.transactions.linked_directories import refuse_linked
from catalog_ext.metastore.transactions.new_files import removal_of
from catalog_ext.metastore.transactions.staging_locations import DATA, StagingLocations
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import AskedWrite, WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import DataFile, Table
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.new_files import NewFiles

_AT_ONCE = 5000
_VALUES_AT_ONCE = 100
_LISTED_AT_ONCE = 20_000
"""Partitions whose directories are listed, and compared with the index, at a time."""


class Checker:
    """Completes the plan of an open transaction; nothing is changed.

    Args:
        index: The index.
        storage: The stores.
        new_files: Looks at directories.
    """

    def __init__(self, index: Index, storage: Storage, new_files: NewFiles) -> None:
        self._index = index
        self._storage = storage
        self._new_files = new_files
        self._waiting = Waiting(index, storage)

    def empty_location(self, location: str, staging: str) -> bool:
        """Return whether the directory of a table that is to be created is not there yet.

        Raises:
            TableLayoutError: It is there and not empty.
            StorageError: The store refuses or does not answer.
        """
        place = Location.parse(location)
        try:
            entries = self._storage.list_directory(place)
        except LocationNotFoundError:
            # S3 has no directory before it has a file in it, but the bucket has to be there.
            if self._storage.stat(Location(place.scheme, place.bucket, "")) is None:
                raise
            return True
        found = [entry for entry in entries if entry.location.name not in (staging, DATA)]
        if found:
            raise TableLayoutError(
                f"A table cannot be created with contents at {shown(location)}: the directory is not empty, it has "
                f"{shown(found[0].location.name)}. Choose another location, or empty it.",
                {"location": location},
            )
        return False

    def check(
        self,
        transaction: Transaction,
        asked: AskedWrite,
        brought: Sequence[StagedFile] | None = None,
        table: Table | None = None,
        *,
        static_partition: str | None,
        watermark_ms: int | None,
        final: bool,
    ) -> WritePlan:
        """Return the plan with all that is decided before ``reserve``.

        Args:
            transaction: Open.
            asked: What it is for.
            brought: Its files, all of them; None where they are recorded.
            table: Its table, loaded right before; None where there is none, or it is to be loaded.
            static_partition: The fully static partition that is to be there also without rows.
            watermark_ms: Of a streaming write, milliseconds since the epoch.
            final: Whether the query has ended by itself.

        Raises:
            StagedFileMissingError: A staged file is not there with its size.
            WaitingFilesMissingError: A file that waited for its partition to be due is gone.
            InvalidInputError: A partition's name does not fit the table.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        staging = StagingLocations(transaction.transaction_id, transaction.plan)
        files = self._index.transaction_files.staged_files(transaction.transaction_id) if brought is None else brought
        places: set[Location] = set()
        names = self._staged_partitions(files, staging, places if transaction.plan.takes else None)
        decision = self._partition_commit(transaction, names, watermark_ms=watermark_ms, final=final)
        visible = (names - {*decision.waiting}) | {*decision.due}
        self._check_targets(transaction, staging, names, places)
        locations = self._locations(transaction, {*decision.due, *([static_partition] if static_partition else [])})
        # A task that was lost may have left a file wherever it had asked for.
        kept = locations if transaction.plan.asks_locations else {*names, *decision.due, static_partition}
        plan = replace(transaction.plan, locations={name: own for name, own in locations.items() if name in kept})
        targets = {*names, *decision.due, *([static_partition] if static_partition else [])}
        self._refuse_shared(transaction, plan, targets)
        self._refuse_linked(transaction, plan, {name: Location.parse(plan.directory(name)) for name in targets})
        self._waiting.check(
            transaction.table_id or 0, transaction.table, transaction.app_id, decision.due, plan.directory
        )
        if isinstance(asked, Overwrite) and (plan.relocate or not asked.adds_others):
            self._refuse_others(transaction, plan, asked, names)
        found: Mapping[str, tuple[DataFile, ...]] = {}
        unknown: Mapping[str, tuple[Removal, ...]] = {}
        # Before anything is listed: what is registered later was not looked at.
        old = self._replaced(transaction) if isinstance(asked, Replace | CreateOrReplace) else None
        new = _NewPartitions(self._index, transaction.table_id or 0, table)
        nothing_there = False
        if isinstance(asked, Append):
            found, nothing_there = self._found(new, staging, visible)
        elif not (plan.relocate or isinstance(asked, Create)):
            replaced = {*names, *(() if static_partition is None else (static_partition,))}
            unknown = self._unknown(transaction, plan, asked, replaced, old)
        if not plan.relocate and plan.definition is None:
            comes = visible if static_partition is None else visible | {static_partition}
            # What lies in no directory need not be looked for in the history, which is long.
            if not (nothing_there and comes == visible):
                unknown = self._with_left(new, staging, comes, unknown)
        published = tuple(sorted(visible)) if plan.partition_commit and self._has_policies(transaction) else ()
        checked = CheckedWrite(
            asked, static_partition, decision.waiting, decision.due, published, found=found, unknown=unknown,
            replaced_version=None if old is None else old.version,
        )  # fmt: skip
        return replace(plan, change=checked)

    def _refuse_shared(self, transaction: Transaction, plan: WritePlan, names: Collection[str]) -> None:
        """Refuse to put files where another partition lies: engines would read them as that one's, too."""
        if not plan.beside_located or plan.relocate:
            return
        table = self._index.tables.load_by_id(transaction.table_id or 0)
        directories = {plan.directory(name): name for name in names}
        for directory, there in sorted(self._index.partitions.at(table, directories).items()):
            others = there - {directories[directory]}
            if others:
                name, other = directories[directory], min(others)
                raise TableLayoutError(
                    f"Rows for partition {shown(name)} of table {transaction.table} would go to {shown(directory)}, "
                    f"where partition {shown(other)} lies: each would have the other's rows. Nothing was written. Give "
                    f"{shown(other)} a directory of its own: move its files, and ALTER TABLE {transaction.table} "
                    "PARTITION (…) SET LOCATION '…'.",
                    {"table": transaction.table, "partition": name[:200], "location": directory},
                )

    def _refuse_linked(self, transaction: Transaction, plan: WritePlan, directories: Mapping[str, Location]) -> None:
        if plan.definition is None:
            refuse_linked(self._index, transaction.table, Location.parse(plan.location), directories)

    def _locations(self, transaction: Transaction, others: Collection[str]) -> Mapping[str, str]:
        """Return the locations of partitions: those that the plan has, and of others for which no task has asked."""
        known = transaction.plan.locations
        if not (transaction.plan.asks_locations and others):
            return known
        table = self._index.tables.load_by_id(transaction.table_id or 0)
        return {**self._index.partitions.locations(table, others), **known}

    def _staged_partitions(
        self, files: Iterable[StagedFile], locations: StagingLocations, places: set[Location] | None
    ) -> set[str]:
        """Return the partitions of the staged files, each of which is there with its size.

        Where they are is added to ``places``.
        """
        names: set[str] = set()
        for batch in batched(files, _AT_ONCE):
            names.update(file.partition for file in batch)
            located = [locations.locate(file) for file in batch]
            check_staged(self._storage, located)
            if places is not None:
                places.update(file.source.parent for file in located if file.source is not None)
        return names

    def _check_targets(
        self, transaction: Transaction, locations: StagingLocations, names: set[str], places: Collection[Location]
    ) -> None:
        """Return if files can be moved to their partitions, from the staging directory or (``places``) elsewhere."""
        own = transaction.plan.locations
        if transaction.plan.takes:
            for place in places:
                check_targets(self._storage, {locations.directory(name) for name in names}, place)
            return
        if any(name not in own for name in names):
            (staging, *_) = locations.staging_directories() or [locations.location]
            check_targets(self._storage, {locations.directory(name) for name in names if name not in own}, staging)

    def _keys(self, transaction: Transaction) -> list[str]:
        if transaction.plan.definition is not None:
            columns = transaction.plan.definition.partition_columns
        else:
            columns = self._index.tables.load_by_id(transaction.table_id or 0).definition.partition_columns
        return [column.name for column in columns]

    def _has_policies(self, transaction: Transaction) -> bool:
        return PartitionCommit.of(transaction.plan.partition_commit, self._keys(transaction)).acts

    def _partition_commit(
        self, transaction: Transaction, names: Collection[str], *, watermark_ms: int | None, final: bool
    ) -> Decision:
        if watermark_ms is None and not final:
            return Decision()
        commit = PartitionCommit.of(transaction.plan.partition_commit, self._keys(transaction))
        waiting: dict[str, int] = {}
        for left in self._index.waiting_files.all(transaction.table_id or 0, transaction.app_id):
            waiting[left.partition] = min(left.since_ms, waiting.get(left.partition, left.since_ms))
        # The index has dated what waits; what comes new needs no clock.
        now = self._index.now_ms() if waiting else 0
        return commit.decide(names, waiting, watermark_ms=watermark_ms, final=final, now_ms=now)

    def _refuse_others(self, transaction: Transaction, plan: WritePlan, asked: Overwrite, names: set[str]) -> None:
        """Refuse rows that the condition is not true for, or what would split a partition that they are added to.

        One that is added to stays where it is, and what is relocated lies elsewhere.
        """
        table = self._index.tables.load_by_id(transaction.table_id or 0)
        others = names - _covered(plan, table, names)
        if others and not asked.adds_others:
            raise InvalidInputError(
                f"The overwrite of table {transaction.table} has rows of {_counted(others)}, which its condition "
                "is not true for: they would be added to what is there. Nothing was written. Mend the rows or the "
                f"condition, or let them through by {MISMATCH} = add.",
                {"table": transaction.table, "partition": min(others)[:200]},
            )
        if not plan.relocate:
            return
        added_to = self._index.partitions.existing(table, sorted(others))
        if added_to:
            raise InvalidInputError(
                f"The overwrite of table {transaction.table} adds rows to {shown(min(added_to))}, which its condition "
                "does not cover, and relocates what it covers: a partition cannot lie in two places. Write those rows "
                "by an INSERT of their own, or use overwrite-mode 'in-place'.",
                {"table": transaction.table, "partition": min(added_to)[:200]},
            )

    def _found(
        self, new: _NewPartitions, locations: StagingLocations, names: Collection[str]
    ) -> tuple[Mapping[str, tuple[DataFile, ...]], bool]:
        """Visible files in the directories of partitions that an append to an external table creates.

        Returns:
            The files, and whether all directories of new partitions were looked at, and none has a visible file.
        """
        if not names or new.table.definition.table_type is not TableType.EXTERNAL:
            return {}, False
        directories = {name: locations.directory(name) for name in new.among(names)}
        if not directories:
            return {}, True
        found = self._new_files.found(new.table.table_id, directories, existing=False)
        return {name: files for name, files in found.items() if files}, not found

    def _with_left(
        self,
        new: _NewPartitions,
        locations: StagingLocations,
        names: Collection[str],
        unknown: Mapping[str, tuple[Removal, ...]],
    ) -> Mapping[str, tuple[Removal, ...]]:
        """Add what relocations have left in the directories of partitions that the write creates."""
        if not names or not new.table.definition.partition_columns:
            return unknown
        directories = {name: locations.directory(name) for name in new.among(names)}
        left = self._new_files.left(new.table, directories) if directories else {}
        left = self._new_files.unneeded(new.table, left, directories) if left else {}
        merged = dict(unknown)
        for name, removals in left.items():
            there = merged.get(name, ())
            known = {removal.path for removal in there}
            merged[name] = (*there, *(removal for removal in removals if removal.path not in known))
        return merged

    def _unknown(
        self, transaction: Transaction, plan: WritePlan, asked: AskedWrite, names: set[str], old: Table | None
    ) -> Mapping[str, tuple[Removal, ...]]:
        """Visible files that the index does not know in the directories that an overwrite in place replaces.

        ``old`` is the table whose name a creation takes, if there is one.
        """
        creates = plan.definition is not None
        table = old if creates else self._index.tables.load_by_id(transaction.table_id or 0)
        base = Location.parse(plan.location)
        if table is not None and isinstance(asked, Overwrite):
            names = _covered(plan, table, names)
        directories = {name: base.join(name) if name else base for name in names}
        if table is None or creates:
            return self._unknown_in(transaction, plan, table, directories, None)
        unknown: dict[str, tuple[Removal, ...]] = {}
        # Each would list all partitions where they are in one directory.
        at_once = _LISTED_AT_ONCE if len(table.definition.keys) > 1 else sys.maxsize
        for living in batched(self._overwritten_places(plan, table, sorted(names)), at_once):
            taken = {name: place for _, name, place in living}
            numbers = {number: place for number, _, place in living}
            unknown.update(self._unknown_in(transaction, plan, table, taken, numbers))
            for name in taken.keys() & directories.keys():
                del directories[name]
        return {**unknown, **self._unknown_in(transaction, plan, table, directories, {})}

    def _unknown_in(
        self,
        transaction: Transaction,
        plan: WritePlan,
        table: Table | None,
        directories: Mapping[str, Location],
        living: Mapping[int, Location] | None,
    ) -> dict[str, tuple[Removal, ...]]:
        """Return those of the visible files in some directories that are not known after they were listed.

        Known are those of the living partitions, given by their numbers and directories, or (None) of all.
        """
        self._refuse_linked(transaction, plan, directories)
        found: Mapping[str, Sequence[Entry]] = self._new_files.visible(directories, table)
        if not any(found.values()):
            return {}
        if table is not None:
            table = self._index.tables.load_by_id(table.table_id)
            of_all = self._new_files.known(table, TRUE) if living is None else {}
            found = self._new_files.unknown(table, found, {**of_all, **self._new_files.known_of(living or {})})
        return {name: tuple(map(removal_of, entries)) for name, entries in found.items() if entries}

    def _replaced(self, transaction: Transaction) -> Table | None:
        """Return the table of the name that a creation takes, if there is one."""
        try:
            return self._index.tables.load(TableIdentifier.parse(transaction.table))
        except TableNotFoundError:
            return None

    def _overwritten(self, plan: WritePlan, table: Table, names: Sequence[str]) -> Iterator[Predicate]:
        """Bound predicates that are true for the partitions that lose their files."""
        keys = table.definition.keys
        bound = bound_predicate(plan, table)
        if bound is not None:
            yield bound
            return
        if not keys:
            yield TRUE
            return
        for some in batched(names, _VALUES_AT_ONCE):
            alternatives = tuple(
                And(
                    tuple(
                        IsNull(key) if value is None else Comparison(Operator.EQ, key, value)
                        for key, value in parse_partition_name(name)
                    )
                )
                for name in some
            )
            yield bind(Or(alternatives), keys, str(table.identifier))

    def _overwritten_places(
        self, plan: WritePlan, table: Table, names: Sequence[str]
    ) -> Iterator[tuple[int, str, Location]]:
        """Yield the numbers, names and directories of the partitions that lose their files."""
        base = Location.parse(table.definition.location)
        columns = ("partition_id", "partition", "location")
        for predicate in self._overwritten(plan, table, names):
            for batch in self._index.partitions.all(table, predicate):
                for number, name, own in zip(*(batch.column(c).to_pylist() for c in columns), strict=True):
                    yield number, name, Location.parse(own) if own is not None else base.join(name) if name else base


class _NewPartitions:
    """Which partitions a write creates, as the table is when it is first asked for: it is asked for twice.

    A partition that comes later, or is relocated, is a conflict of the reservation.
    """

    def __init__(self, index: Index, table_id: int, table: Table | None) -> None:
        self._index = index
        self._table_id = table_id
        self._table = table
        self._known: dict[str, bool] = {}

    @cached_property
    def table(self) -> Table:
        """The table.

        Raises:
            TableNotFoundError: It is gone.
        """
        return self._table or self._index.tables.load_by_id(self._table_id)

    def among(self, names: Collection[str]) -> list[str]:
        """Return those of the names that the table has no partition of."""
        unasked = sorted(name for name in names if name not in self._known)
        if unasked:
            there = self._index.partitions.existing(self.table, unasked)
            self._known.update((name, name in there) for name in unasked)
        return [name for name in names if not self._known[name]]


def _counted(names: Collection[str]) -> str:
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"the partition {shown(min(names))}{more}"


def _covered(plan: WritePlan, table: Table, names: set[str]) -> set[str]:
    """Return those of the partitions' names that the overwrite's condition is true for."""
    is_covered = covers(bound_predicate(plan, table), table)
    return names if is_covered is None else {name for name in names if is_covered(name)}
