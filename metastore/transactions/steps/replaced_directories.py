"""Finds the files that an overwrite in place must delete although the index does not have them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate, covers
from catalog_ext.metastore.commit.plan import Overwrite
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import parse_partition_name
from catalog_ext.metastore.predicates.tree import TRUE, And, Comparison, IsNull, Operator, Or, Predicate, bind
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.linked_directories import refuse_linked
from catalog_ext.metastore.transactions.new_files import NewFiles, removal_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import AskedWrite, WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.transactions.resources import Resources

    Unknown = dict[str, tuple[Removal, ...]]

_VALUES_AT_ONCE = 100
_LISTED_AT_ONCE = 20_000
"""The number of partitions whose directories are listed, and compared with the index, at a time."""


class ReplacedDirectories:
    """The directories whose files one write replaces; the methods only read."""

    def __init__(self, resources: Resources, transaction: Transaction, plan: WritePlan) -> None:
        self._resources = resources
        self._new_files = NewFiles(resources)
        self._transaction = transaction
        self._plan = plan

    def unknown(self, asked: AskedWrite, names: set[str], old: Table | None) -> Unknown:
        """Return, by partition, the visible files that the index lacks or has in another state.

        ``names``: the partitions that get files, and the partition of a fully static PARTITION clause.
        ``old``: the table that a creation replaces; None if it replaces none.

        Raises:
            TableLayoutError: A directory is a link into another table.
            StorageError: A directory cannot be listed.
        """
        creates = self._plan.definition is not None
        table = old if creates else self._resources.table(self._transaction)
        base = Location.parse(self._plan.location)
        if table is not None and isinstance(asked, Overwrite):
            names = covered_names(self._plan, table, names)
        directories = {name: base.join(name) if name else base for name in names}
        if table is None or creates:
            return self._unknown_in(table, directories, None)
        unknown: Unknown = {}
        # With one key, all partitions are in one parent directory, which each batch would list as a whole. So use one
        # batch.
        at_once = _LISTED_AT_ONCE if len(table.definition.keys) > 1 else sys.maxsize
        for living in batched(self._living(table, sorted(names)), at_once):
            places = {name: place for _, name, place in living}
            unknown.update(self._unknown_in(table, places, {number: place for number, _, place in living}))
            for name in places.keys() & directories.keys():
                del directories[name]
        return {**unknown, **self._unknown_in(table, directories, {})}

    def _unknown_in(
        self, table: Table | None, directories: Mapping[str, Location], living: Mapping[int, Location] | None
    ) -> Unknown:
        """List directories, and return the visible files that the index does not have after the listing.

        ``living``: the directories of the partitions whose files to compare with, by partition number; None to compare
        with the files of all partitions.
        """
        if self._plan.definition is None:
            root = Location.parse(self._plan.location)
            refuse_linked(self._resources.index, self._transaction.table, root, directories)
        found: Mapping[str, Sequence[Entry]] = self._new_files.visible(directories, table)
        if not any(found.values()):
            return {}
        if table is not None:
            table = self._resources.table_of(table.table_id)
            of_all = self._new_files.known(table, TRUE) if living is None else {}
            found = self._new_files.unknown(table, found, {**of_all, **self._new_files.known_of(living or {})})
        return {name: tuple(map(removal_of, entries)) for name, entries in found.items() if entries}

    def _living(self, table: Table, names: Sequence[str]) -> Iterator[tuple[int, str, Location]]:
        """Yield the numbers, names and directories of the partitions that lose their files."""
        columns = ("partition_id", "partition", "location")
        for predicate in self._predicates(table, names):
            for batch in self._resources.index.partitions.all(table, predicate):
                for number, name, own in zip(*(batch.column(c).to_pylist() for c in columns), strict=True):
                    yield number, name, Location.parse(table.directory(name, own))

    def _predicates(self, table: Table, names: Sequence[str]) -> Iterator[Predicate]:
        """Yield bound predicates that are true for the partitions that lose their files."""
        keys = table.definition.keys
        bound = bound_predicate(self._plan, table)
        if bound is not None:
            yield bound
            return
        if not keys:
            yield TRUE
            return
        for some in batched(names, _VALUES_AT_ONCE):
            yield bind(Or(tuple(map(_has_values, some))), keys, str(table.identifier))


def _has_values(name: str) -> Predicate:
    """Return the predicate that is true only for partitions with the values in a name."""
    return And(
        tuple(
            IsNull(key) if value is None else Comparison(Operator.EQ, key, value)
            for key, value in parse_partition_name(name)
        )
    )


def covered_names(plan: WritePlan, table: Table, names: Collection[str]) -> set[str]:
    """Return the partition names that match the overwrite's condition."""
    is_covered = covers(bound_predicate(plan, table), table)
    return set(names) if is_covered is None else {name for name in names if is_covered(name)}
