"""Files that are not where a listing looks for them: of commands that move files, and of relocating overwrites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.claims import bound_predicate, touched
from catalog_ext.metastore.commit.plan import RenamePartition
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Partition, Table


def covered_partitions(index: Index, plan: WritePlan, table: Table) -> list[Partition]:
    """Return the living partitions that a plan's predicate is true for; none without a predicate."""
    predicate = bound_predicate(plan, table)
    return [] if predicate is None else index.living_partitions.matching(table, predicate)


class Moves:
    """Remembers, from before a listing on, which commands move files of a table.

    A committed command has made a version, which a comparison with the listing sees. A command that was undone
    meanwhile has made none, although the listing may hold the files that it had moved.

    Args:
        index: Knows the transactions.
        table_id: The table's number.
        exist: Whether there may be any before the listing.
    """

    def __init__(self, index: Index, table_id: int, *, exist: bool = True) -> None:
        self._index = index
        self._table_id = table_id
        before = self._commands() if exist else ()
        self._over = {one.transaction_id for one in before if one.state is State.ABORTED}

    def partitions(self, table: Table) -> dict[str, Transaction]:
        """Return the partitions of the table whose files may have been elsewhere during the listing, by name."""
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
        if isinstance(command.plan.asked, RenamePartition):
            # As the store spells them.
            living = self._index.living_partitions.of_values(table, sorted(names))
        else:
            living = covered_partitions(self._index, command.plan, table)
        return names | {partition.name for partition in living}


def replaced_by_relocations(index: Index, table: Table) -> Iterator[Removal]:
    """Yield the files that a relocating overwrite has replaced and that no later version of the table has named.

    A repair does not take them for new ones when their partition is gone. A path that a later version named again
    (``SET LOCATION``, ``ADD PARTITION … LOCATION``) is not among them, whatever became of it afterwards. A file that
    differs from the one that the index knew is another one under the same name; names that carry a transaction's id
    come without a size, a time and an ETag: the overwrite has also replaced one that was rewritten before it.
    """
    for page in index.ended_files.pages(table, table.version):
        for file in page:
            own = transaction_id_in(file.uri.rpartition("/")[2]) is not None
            yield Removal(file.uri) if own else Removal(file.uri, file.size, file.modified_ms, file.etag)
