"""What a write leaves to be deleted of the partitions that it ends or empties."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_commit import PartitionCommit, PolicyKind
from catalog_ext.metastore.commit.plan import CheckedWrite
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.index.write.removals import RecordedDeletions
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import sqlalchemy as sa

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index.write.fixed_set import LatePartition
    from catalog_ext.metastore.model.tables import Partition, Table

_AT_ONCE = 5000
"""Partitions whose rows are held in memory at a time."""


class ReplacedFiles:
    """The files of the partitions that one write replaces.

    Args:
        plan: The write's.
        write: What it does.
        table: The table.
        removals: Takes what is to be deleted.
    """

    def __init__(self, plan: WritePlan, write: CheckedWrite, table: Table, removals: RecordedDeletions) -> None:
        self._plan = plan
        self._table = table
        self._removals = removals
        self._unregistered = dict(write.unknown)
        self._policies = PartitionCommit.of(plan.partition_commit, [key.name for key in table.definition.keys])

    def remove(self, cleared: Sequence[Partition], drops: Sequence[Partition]) -> None:
        """Remove the files that living partitions lose: those that stay, and those that end."""
        self._remove_files([*cleared, *drops])
        self._remove_directories(drops)
        if self._plan.relocate:
            # A repair would register an empty directory again once the partition is dropped from its new place.
            for partition in cleared:
                if not partition.files:
                    self._removals.add(Removal(f"{self._table.directory_of(partition)}/"))

    def remove_ended(self, late: Iterable[LatePartition]) -> None:
        """Have removed what partitions lose that keep the files which were registered since ``reserve``."""
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
        """Remove files that end where they are, and ones that the index never knew; moved partitions keep theirs."""
        if self._plan.relocate:
            return
        for partition in ended:
            self._remove_unknown(partition)
        for some in batched(ended, _AT_ONCE):
            self._removals.add_files({p.partition_id: self._table.directory_of(p) for p in some})

    def remove_unregistered(self) -> None:
        """Remove what lies where no partition ends: in the directories of those that come."""
        if not self._plan.relocate:
            for name, files_there in self._unregistered.items():
                self._removals.add_in(self._table.directory(name), files_there)

    def _remove_directories(self, drops: Sequence[Partition]) -> None:
        """Remove the directories of partitions that end without files, which a repair would add again.

        What the table's policy has put into any to say that a partition is whole goes with it.
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
    """List the files of partitions whose deletion a committed write has deferred."""
    assert isinstance(plan.change, CheckedWrite), "only a write defers its deletes"
    removals = RecordedDeletions(connection, transaction_id)
    for name, found in plan.change.unknown.items():
        # The commit has listed these as they were found.
        removals.pass_over(table.directory(name), found)
    ReplacedFiles(plan, replace(plan.change, unknown={}), table, removals).remove((), ended)
    removals.flush()
