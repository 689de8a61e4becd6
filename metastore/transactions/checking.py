"""The step before ``reserve``: are the staged files there, and what lies in the directories that the write will own?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_commit import Decision, PartitionCommit
from catalog_ext.metastore.commit.plan import State, WriteKind
from catalog_ext.metastore.errors import InvalidInputError, LocationNotFoundError, TableLayoutError, TableNotFoundError
from catalog_ext.metastore.index.write.reservations import bound_predicate, covers
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import definition_from_dict
from catalog_ext.metastore.model.partition_names import is_hidden, parse_partition_name
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.tree import TRUE, And, Comparison, IsNull, Operator, Or, Predicate, bind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.promotion import check_staged
from catalog_ext.metastore.storage.store import EntryKind
from catalog_ext.metastore.transactions.relocations import replaced_by_relocations
from catalog_ext.metastore.transactions.staging_locations import DATA, Places, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import Transaction, WritePlan
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Entry, Storage

_AT_ONCE = 5000
_VALUES_AT_ONCE = 100


class Checker:
    """Completes the plan of an open transaction; nothing is changed.

    Args:
        index: The index.
        storage: The stores.
        threads: Directories that are listed at the same time.
    """

    def __init__(self, index: Index, storage: Storage, threads: int) -> None:
        self._index = index
        self._storage = storage
        self._threads = threads

    def empty_location(self, location: str, staging: str) -> bool:
        """Whether the directory of a table that is to be created is not there yet.

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

    def complete(
        self, transaction: Transaction, *, keep: str | None, watermark_ms: int | None, final: bool, now_ms: int
    ) -> WritePlan:
        """The plan with all that is decided before ``reserve``.

        Args:
            transaction: Open, its files recorded.
            keep: The fully static partition that is to be there also without rows.
            watermark_ms: Of a streaming write, milliseconds since the epoch.
            final: Whether the query has ended by itself.
            now_ms: The clock.

        Raises:
            StagedFileMissingError: A staged file is not there with its size.
            InvalidInputError: A partition's name does not fit the table.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        plan = transaction.plan
        places = Places(transaction.transaction_id, plan)
        names: set[str] = set()
        files = self._index.staged_files(transaction.transaction_id)
        while batch := list(islice(files, _AT_ONCE)):
            names.update(file.partition for file in batch)
            check_staged(self._storage, [places.place(file) for file in batch])
        decision = self._partition_commit(transaction, names, watermark_ms=watermark_ms, final=final, now_ms=now_ms)
        visible = (names - {*decision.waiting}) | {*decision.due}
        plan = replace(
            plan,
            keep=keep,
            waiting=decision.waiting,
            due=decision.due,
            announces=tuple(sorted(visible)) if plan.partition_commit and self._acts(transaction) else (),
            locations={name: own for name, own in plan.locations.items() if name in {*names, *decision.due, keep}},
        )
        if plan.kind is WriteKind.OVERWRITE and plan.relocate:
            self._refuse_to_split(transaction, plan, names)
        if plan.kind is WriteKind.APPEND:
            return replace(plan, takes_in=self._taken_in(transaction, plan, places, visible))
        if plan.relocate or plan.kind is WriteKind.CREATE:
            return plan
        return replace(plan, removes=self._removed(transaction, plan, {*names, *([] if keep is None else [keep])}))

    def _keys(self, transaction: Transaction) -> list[str]:
        if transaction.plan.definition is not None:
            columns = definition_from_dict(transaction.plan.definition).partition_columns
        else:
            columns = self._index.load_table_by_id(transaction.table_id or 0).definition.partition_columns
        return [column.name for column in columns]

    def _acts(self, transaction: Transaction) -> bool:
        return PartitionCommit.of(transaction.plan.partition_commit, self._keys(transaction)).acts

    def _partition_commit(
        self, transaction: Transaction, names: Collection[str], *, watermark_ms: int | None, final: bool, now_ms: int
    ) -> Decision:
        if watermark_ms is None and not final:
            return Decision()
        commit = PartitionCommit.of(transaction.plan.partition_commit, self._keys(transaction))
        waiting: dict[str, int] = {}
        for left in self._index.waiting_files(transaction.table_id or 0, transaction.app_id):
            waiting[left.partition] = min(left.since_ms, waiting.get(left.partition, left.since_ms))
        return commit.decide(names, waiting, watermark_ms=watermark_ms, final=final, now_ms=now_ms)

    def _refuse_to_split(self, transaction: Transaction, plan: WritePlan, names: set[str]) -> None:
        """A partition that is added to stays where it is, and what is relocated does not lie there."""
        table = self._index.load_table_by_id(transaction.table_id or 0)
        added_to = self._index.partition_exists(table, sorted(names - _covered(plan, table, names)))
        if added_to:
            raise InvalidInputError(
                f"The overwrite of table {transaction.table} adds rows to {shown(min(added_to))}, which its condition "
                "does not cover, and relocates what it covers: a partition cannot lie in two places. Write those rows "
                "by an INSERT of their own, or use overwrite-mode 'in-place'.",
                {"table": transaction.table, "partition": min(added_to)[:200]},
            )

    def _taken_in(
        self, transaction: Transaction, plan: WritePlan, places: Places, names: Collection[str]
    ) -> Mapping[str, tuple[tuple[str, int, int], ...]]:
        """Visible files in the directories of partitions that an append to an external table creates."""
        table_id = transaction.table_id or 0
        table = self._index.load_table_by_id(table_id)
        if not names or table.definition.table_type is not TableType.EXTERNAL:
            return {}
        new = sorted({*names} - self._index.partition_exists(table, sorted(names)))
        if not new:
            return {}
        # Asked before the listing: a file that a finished clean-up has deleted since then is not found by it.
        leaving = self.leaving(table_id)
        found = self.visible({name: places.directory(name) for name in new})
        if not any(found.values()):
            return {}
        # And these after it: whoever has committed by now has put its files into the index.
        table = self._index.load_table_by_id(table_id)
        hidden = self._index.uncommitted_ids(table_id, table.version)
        replaced = dict(replaced_by_relocations(self._index, table))
        there = self._index.partition_exists(table, new)
        taken = {
            name: tuple(
                (entry.location.name, entry.size, entry.modified_ms)
                for entry in entries
                if str(entry.location) not in leaving
                and entry.modified_ms > replaced.get(str(entry.location), -1)
                and transaction_id_in(entry.location.name) not in hidden
            )
            for name, entries in found.items()
            if name not in there
        }
        return {name: files for name, files in taken.items() if files}

    def leaving(self, table_id: int) -> set[str]:
        """The files that committed overwrites have yet to delete."""
        committed = self._index.list_transactions(table_id, states=(State.COMMITTED,))
        return {str(Location.parse(uri)) for t in committed for uri in self._index.removals(t.transaction_id)}

    def _removed(self, transaction: Transaction, plan: WritePlan, names: set[str]) -> Mapping[str, tuple[str, ...]]:
        """Visible files that the index does not know in the directories that an overwrite in place replaces."""
        definition = None if plan.definition is None else definition_from_dict(plan.definition)
        table = self._replaced(transaction) if definition is not None else self._index.load_table_by_id(
            transaction.table_id or 0
        )  # fmt: skip
        base = Location.parse(plan.location)
        if table is not None and plan.kind is WriteKind.OVERWRITE:
            names = _covered(plan, table, names)
        directories = {name: base.join(name) if name else base for name in names}
        predicates: list[Predicate] = []
        if table is not None and definition is None:
            predicates = list(self._overwritten(plan, table, sorted(names)))
            for predicate in predicates:
                directories.update(self._directories(table, predicate))
        found = self.visible(directories)
        if not any(found.values()):
            return {}
        if table is None:
            return {name: tuple(e.location.name for e in entries) for name, entries in found.items() if entries}
        table = self._index.load_table_by_id(table.table_id)
        hidden = self._index.uncommitted_ids(table.table_id, table.version)
        known = self.known(table, predicates if definition is None else [TRUE])
        unknown = {
            name: tuple(
                entry.location.name
                for entry in entries
                if str(entry.location) not in known and transaction_id_in(entry.location.name) not in hidden
            )
            for name, entries in found.items()
        }
        return {name: paths for name, paths in unknown.items() if paths}

    def _replaced(self, transaction: Transaction) -> Table | None:
        """The table of the name that a creation takes, if there is one."""
        try:
            return self._index.load_table(TableIdentifier.parse(transaction.table))
        except TableNotFoundError:
            return None

    def _overwritten(self, plan: WritePlan, table: Table, names: Sequence[str]) -> Iterator[Predicate]:
        """Bound predicates that are true for the partitions that lose their files."""
        keys = table.definition.keys
        shown_table = str(table.identifier)
        if plan.kind is WriteKind.OVERWRITE:
            unbound = TRUE if plan.predicate is None else predicate_from_json(plan.predicate)
            yield bind(unbound, keys, shown_table)
            return
        if not keys:
            yield TRUE
            return
        for start in range(0, len(names), _VALUES_AT_ONCE):
            alternatives = tuple(
                And(
                    tuple(
                        IsNull(key) if value is None else Comparison(Operator.EQ, key, value)
                        for key, value in parse_partition_name(name)
                    )
                )
                for name in names[start : start + _VALUES_AT_ONCE]
            )
            yield bind(Or(alternatives), keys, shown_table)

    def _directories(self, table: Table, predicate: Predicate) -> dict[str, Location]:
        rows = self._index.list_partitions(table, predicate).read_all()
        base = Location.parse(table.definition.location)
        return {
            name: Location.parse(own) if own is not None else (base.join(name) if name else base)
            for name, own in zip(rows.column("partition").to_pylist(), rows.column("location").to_pylist(), strict=True)
        }

    def known(self, table: Table, predicates: Sequence[Predicate]) -> set[str]:
        """The URIs of the files of the partitions that one of the bound predicates is true for."""
        known: set[str] = set()
        base = table.definition.location
        for predicate in predicates:
            for batch in self._index.plan_files(table, predicate):
                for name, own, path in zip(
                    *(batch.column(c).to_pylist() for c in ("partition", "location", "path")), strict=True
                ):
                    known.add(f"{own or (f'{base}/{name}' if name else base)}/{path}")
        return known

    def visible(self, directories: Mapping[str, Location]) -> dict[str, list[Entry]]:
        """The visible files directly in each directory; none where there is no directory."""
        found = self.contents(directories)
        return {name: [e for e in entries if not is_hidden(e.location.name)] for name, entries in found.items()}

    def contents(self, directories: Mapping[str, Location]) -> dict[str, list[Entry]]:
        """The files directly in each directory, hidden ones too; none where there is no directory."""
        names = sorted(directories)
        listed = in_parallel(partial(self._files_in, directories), names, self._threads)
        return dict(zip(names, listed, strict=True))

    def _files_in(self, directories: Mapping[str, Location], name: str) -> list[Entry]:
        try:
            entries = self._storage.list_directory(directories[name])
        except LocationNotFoundError:
            return []
        return [e for e in entries if e.kind is EntryKind.FILE]


def _covered(plan: WritePlan, table: Table, names: set[str]) -> set[str]:
    """Those of the partitions' names that the overwrite's condition is true for."""
    is_covered = covers(bound_predicate(plan, table), table)
    return names if is_covered is None else {name for name in names if is_covered(name)}
