"""Finds the partitions that commands move, so that a concurrent listing does not mistake their files for new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate, touched
from catalog_ext.metastore.commit.partition_plans import RenamePartition
from catalog_ext.metastore.commit.transaction import State

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Partition, Table


def covered_partitions(index: Index, plan: WritePlan, table: Table, limit: int | None = None) -> list[Partition]:
    """Return the table's partitions that match the plan's predicate, at most ``limit``; none without a predicate."""
    predicate = bound_predicate(plan, table)
    return [] if predicate is None else index.living_partitions.matching(table, predicate, limit)


def moving_partitions(index: Index, command: Transaction, table: Table, names: Collection[str]) -> list[Partition]:
    """Return the partitions that a command moves; a rename selects them by the values in the names."""
    if isinstance(command.plan.asked, RenamePartition):
        # Select by values: the partition's name on the store may be spelled differently.
        return index.living_partitions.of_values(table, sorted(names))
    return covered_partitions(index, command.plan, table)


class Moves:
    """Finds the commands that may have moved files of a table during a listing. Create it before the listing.

    A committed command has made a version, which a comparison with the listing detects. A command that was undone
    during the listing has made none, although the listing may have seen its moved files.

    Args:
        exist: Whether any command in flight may be moving files; otherwise the index is not asked.
    """

    def __init__(self, index: Index, table_id: int, *, exist: bool = True) -> None:
        self._index = index
        self._table_id = table_id
        before = self._commands() if exist else ()
        self._over = {one.transaction_id for one in before if one.state is State.ABORTED}

    def partitions(self, table: Table) -> dict[str, Transaction]:
        """Return the partitions whose files a command may have moved during the listing, by name."""
        return {
            name: command
            for command in self._commands()
            if command.transaction_id not in self._over
            for name in self._names(command, table)
        }

    def _commands(self) -> list[Transaction]:
        return [
            c for c in self._index.transactions.moving_commands() if self._table_id in (c.table_id, c.plan.source_id)
        ]

    def _names(self, command: Transaction, table: Table) -> set[str]:
        names = touched(command.plan, ()) if command.table_id == self._table_id else set()
        return names | {partition.name for partition in moving_partitions(self._index, command, table, names)}
