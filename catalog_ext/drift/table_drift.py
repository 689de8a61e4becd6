"""Compares one table on all three sides (store, index, metastore) in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.display import shown_progress
from catalog_ext.drift.definitions import DefinitionComparison
from catalog_ext.drift.difference import (
    HAS_IT,
    MISSING,
    Difference,
    DriftKind,
    IndexTimes,
    Side,
    changed_in_metastore,
    later,
    not_compared,
    statistics_words,
    waiting,
)
from catalog_ext.drift.partitions import PartitionComparison, StoreSide
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    LocationNotFoundError,
    MetastoreUnavailableError,
    StorageError,
)
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.compare import statistics_contradict
from catalog_ext.scan.scratch import Scratch
from catalog_ext.sync.pending import PendingMessages
from catalog_ext.sync.tables import find_table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from catalog_ext.context import Context, Progress
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.repair.table_repair import TableRepair

_DEFINITION_TRIES = 3
_ANOTHER = "the metastore has another table of the name: it is elsewhere, has other partition columns, or is a view"


class TableDrift:
    """The comparison of one table on all three sides.

    Args:
        context: The catalog's context.
        repair: Compares the store with the index.
        table: The table, just loaded.
        client: The metastore; None if the catalog has no metastore, or it did not answer.
        progress: A callback while the store is listed.
    """

    def __init__(
        self, context: Context, repair: TableRepair, table: Table, client: HiveMetastore | None,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        self._context = context
        self._index = context.index
        self._repair = repair
        self._table = table
        self._name = str(table.identifier)
        self._client = client
        self._progress = progress
        self.metastore_error: MetastoreUnavailableError | None = None
        """The error if no metastore server answered; set when all differences were read."""

    def differences(self) -> Iterator[Difference]:
        """Yield the differences, as they are found."""
        unseen: Difference | None = None
        try:
            with shown_progress(self._progress, f"Comparing {self._name} with the store") as report_progress:
                scratch = self._repair.preview(self._table, report_progress)
        except LocationNotFoundError as error:
            scratch = Scratch()
            place = f"at {self._table.definition.location}"
            unseen = Difference(self._name, DriftKind.TABLE, "", MISSING, place, evidence=error.message)
        except StorageError as error:
            scratch = Scratch()
            unseen = not_compared(self._name, error.message, side=Side.STORE, unavailable=error.retryable)
        try:
            if unseen is not None:
                yield unseen
            yield from self._with(scratch, StoreSide(scratch, listed=unseen is None))
        finally:
            scratch.close()

    def _with(self, scratch: Scratch, store: StoreSide) -> Iterator[Difference]:
        yield from store.unseen(self._name)
        times = IndexTimes(self._index, self._table)
        pending = PendingMessages(self._index, self._table.identifier, self._table)
        partitions = PartitionComparison(self._index, self._table, store, pending, times)
        compared = False
        if self._client is not None and unrepresentable_reason(self._table.definition) is None:
            try:
                compared = yield from self._with_metastore(self._client, scratch, partitions, pending)
            except IndexDatabaseError:
                raise
            except CatalogExtError as error:
                self.metastore_error = error if isinstance(error, MetastoreUnavailableError) else None
                yield not_compared(self._name, error.message, side=Side.METASTORE, unavailable=error.retryable)
        yield from partitions.with_store_alone(metastore_compared=compared)

    def _with_metastore(
        self, client: HiveMetastore, scratch: Scratch, partitions: PartitionComparison, pending: PendingMessages
    ) -> Generator[Difference, None, bool]:
        """Yield the differences between metastore and index; return whether the partitions were compared too."""
        found = find_table(client, self._table.identifier)
        if found is None:
            yield missing_in_metastore(self._table, pending)
            return False
        compared = DefinitionComparison(self._table.definition, found)
        differences = list(compared.differences())
        for _ in range(_DEFINITION_TRIES):
            now = self._index.tables.load_by_id(self._table.table_id)
            if now.definition == self._table.definition or not differences:
                break
            # The table was altered since the comparison began. Load both sides again, because they may be equal now.
            self._table = now
            found = client.get_table(now.identifier.namespace, now.identifier.name)
            compared = DefinitionComparison(now.definition, found)
            differences = list(compared.differences())
        yield from of_definition(differences, pending)
        if found.table_type == VIRTUAL_VIEW or compared.is_elsewhere or compared.has_other_keys:
            yield not_compared(self._name, _ANOTHER, side=Side.METASTORE)
            return False
        if not self._table.definition.partition_columns:
            yield from self._statistics(found, pending)
            return True
        yield from partitions.with_metastore(client, found, scratch)
        return True

    def _statistics(self, found: HiveTable, pending: PendingMessages) -> Iterator[Difference]:
        page, _ = self._index.publications.page(self._table, -1)
        for partition in page:
            if not statistics_contradict(found, partition.parameters):
                continue
            times = IndexTimes(self._index, self._table)
            changed_at = times.of_partitions(self._index.living_partitions.of_values(self._table, [""]))
            verdict = later(changed_at.get(""), changed_in_metastore(found.parameters))
            both = statistics_words(partition.parameters), statistics_words(found.parameters)
            difference = Difference(self._name, DriftKind.STATISTICS, "", None, *both, *verdict)
            yield waiting(difference, pending) if pending.among([""]) else difference


def missing_in_metastore(table: Table, pending: PendingMessages) -> Difference:
    """Return the difference that the metastore does not have a table or view of the index."""
    has = f"at {table.definition.location}" if table.definition.location else HAS_IT
    why = "the other side does not say when it was dropped"
    missing = Difference(str(table.identifier), DriftKind.TABLE, "", None, has, MISSING, evidence=why)
    return waiting(missing, pending) if pending.whole else missing


def of_definition(differences: Iterable[Difference], pending: PendingMessages) -> Iterator[Difference]:
    """Yield differences of a definition, marked as pending if an outbox message will remove them."""
    return (waiting(each, pending) if pending.definition else each for each in differences)
