"""Imports the metastore's state of partitions into the index, for ``follow`` and for ``drift --mend --from metastore``.

The metastore decides which partitions exist, their locations and formats; the store decides which files they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.repair.options import MetastoreState
from catalog_ext.sync.metastore_partitions import MetastoreObserver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.repair.report import RepairReport
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.sync.metastore_partitions import MetastorePartitions


class Adopted(NamedTuple):
    """The result of importing the metastore's state of some partitions.

    Attributes:
        there: The metastore's state of the partitions; None for a table without partition columns.
        listed: The number of partitions whose locations were listed.
        report: The report of the commit, or in a preview of its changes; None if no partition had to be compared.
    """

    there: MetastorePartitions | None
    listed: int = 0
    report: RepairReport | None = None


class PartitionAdoption:
    """Compares partitions of one table with the metastore and the store, and commits the differences to the index.

    Args:
        context: The catalog's context.
        repair: Compares partitions with the store.
        client: The metastore.
        hive: The metastore's table.
        dry_run: Preview only.
        must_lie: Whether a partition is not changed if its location is empty or missing, or the metastore lacks it.
        deliver: Whether the outbox sends the commits to the metastore.
    """

    def __init__(
        self, context: Context, repair: TableRepair, client: HiveMetastore, hive: HiveTable, *, dry_run: bool,
        must_lie: bool = False, deliver: bool = False,
    ) -> None:  # fmt: skip
        self._context = context
        self._repair = repair
        self._client = client
        self._hive = hive
        self._dry_run = dry_run
        self._must_lie = must_lie
        self._deliver = deliver

    def adopt(self, table: Table, names: Mapping[str, bool], *, why: str, operation: str = "repair") -> Adopted:
        """Import the metastore's state of some partitions, with one call to the metastore.

        Args:
            table: The index's table at the version to change. Partitions with later commits are not changed.
            names: The partitions; the value is True if a partition is dropped when the metastore lacks it. ``''``
                stands for the files of a table without partition columns.
            why: The reason in the history.
            operation: The operation in the history.

        Raises:
            StorageError: A location cannot be listed.
            MetastoreError: The metastore does not answer, or a message for it cannot be read.
        """
        there, state = None, MetastoreState({"": None}, must_lie=self._must_lie)
        if table.definition.partition_columns:
            there = MetastoreObserver(self._context, self._client, self._hive, table).observe(names)
            state = there.state(must_lie=self._must_lie)
        if not state.names:
            return Adopted(there)
        report = self._repair.look_at(
            table, state.names, why=why, metastore_state=state, dry_run=self._dry_run, deliver=self._deliver,
            operation=operation,
        )  # fmt: skip
        return Adopted(there, len(state.places), report)
