"""One table or view as another metastore gets it: compared, and what is missing or differs is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import to_hive, values_or_none
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.compare import (
    check_ours,
    compared,
    definition_differs,
    key_types_differ,
    statistics_differ,
)
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.metastore.messages import (
    AlterTable,
    AlterTableStatistics,
    CreateTable,
    PutView,
    SyncPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Message, PublishedPartition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.views import View

MADE, ALTERED, PARTITIONS, IN_STEP = "made", "altered", "partitions", "in step"


class _Exported:
    """What tables and views have in common.

    Attributes:
        action: What was done to it.
        sent: Partitions that were added or altered.
        held: Partitions that the metastore can hold.
        kept: Partitions that only the metastore has.
    """

    def __init__(self, index: Index, client: HiveMetastore, table: Table) -> None:
        self._index = index
        self._client = client
        self._table = table
        self._dry_run = False
        self.action = IN_STEP
        self.sent = self.held = self.kept = 0

    def _carry_out(self, message: Message, action: str) -> None:
        if self.action == IN_STEP:
            self.action = action
        if not self._dry_run:
            carry_out(self._client, message)

    def _pages(self) -> Iterator[list[PublishedPartition]]:
        for page in filter(None, self._index.publications.pages(self._table)):
            self.held += len(page)
            yield page

    def _found(self) -> HiveTable | None:
        try:
            return self._client.get_table(self._table.identifier.namespace, self._table.identifier.name)
        except TableNotFoundError:
            return None


class ExportedTable(_Exported):
    """A table."""

    def send(self, *, dry_run: bool) -> None:
        """Bring the metastore's table to the index's state, or in a preview find what that takes.

        Raises:
            MetastoreRefusedError: It has another table of the name.
        """
        self._dry_run = dry_run
        definition = self._table.definition
        found = self._found()
        if found is None:
            self._carry_out(CreateTable(definition), MADE)
            found = to_hive(definition)
        else:
            check_ours(found, definition)
            retype = key_types_differ(found, definition)
            if retype or definition_differs(found, definition):
                kept = tuple(each.to_dict() for each in self._index.descriptors.of_table(self._table).values())
                self._carry_out(AlterTable(definition, rebuild=True, retype=retype, kept=kept), ALTERED)
        self._send_partitions(found)

    def _send_partitions(self, found: HiveTable) -> None:
        identifier, location = self._table.identifier, self._table.definition.location
        if not found.partition_columns:
            for page in self._pages():
                for partition in page:
                    if statistics_differ(found, partition.parameters):
                        message = AlterTableStatistics(identifier, partition.parameters, location)
                        self._carry_out(message, ALTERED)
            return
        there = 0
        for page in self._pages():
            # In a preview a table that is missing has no partitions to ask for.
            both = [] if self._dry_run and self.action == MADE else compared(self._client, found, page)
            in_step = {each.name for each in both if each.in_step}
            there += sum(each.found is not None for each in both)
            differ = tuple(partition for partition in page if partition.name not in in_step)
            if differ:
                self.sent += len(differ)
                self._carry_out(SyncPartitions(identifier, altered=differ, location=location), PARTITIONS)
        if self.action != MADE:
            ours = there if self._dry_run else self.held
            self.kept = sum(1 for _ in self._client.partition_names(found.database, found.name)) - ours


class ExportedView(_Exported):
    """A view, with its partitions."""

    def __init__(self, index: Index, client: HiveMetastore, view: View) -> None:
        super().__init__(index, client, view.table)
        self._view = view

    def send(self, *, dry_run: bool) -> None:
        """Bring the metastore's view to the index's state, or in a preview find what that takes.

        Raises:
            InvalidInputError: It has a table of the name.
        """
        self._dry_run = dry_run
        table, query = self._table, self._view.query
        found = self._found()
        if found is not None and found.table_type != VIRTUAL_VIEW:
            raise InvalidInputError(f"The metastore has a table {found}, which our view cannot replace.")
        if found is None or view_differs(found, table.definition, query):
            self._carry_out(PutView(table.definition, query), MADE if found is None else ALTERED)
        if not table.definition.partition_columns:
            return
        names: set[object] = set()
        if found is not None:
            names = {values_or_none(found, n) for n in self._client.partition_names(found.database, found.name)}
        known = 0
        for page in self._pages():
            missing = tuple(p for p in page if found is None or values_or_none(found, p.name) not in names)
            known += len(page) - len(missing)
            if missing:
                self.sent += len(missing)
                self._carry_out(SyncPartitions(table.identifier, added=missing, location=""), PARTITIONS)
        self.kept = len(names) - known
