"""One table or view as another metastore gets it: compared, and what is missing or differs is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.compare import check_ours, definition_differs, key_types_differ
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.metastore.messages import AlterTable, AlterTableStatistics, CreateTable, PutView, SyncPartitions
from catalog_ext.metastore.model.views import View
from catalog_ext.sync.metastore_differences import compared_pages, view_partitions
from catalog_ext.sync.tables import find_table, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Message, PublishedPartition
    from catalog_ext.metastore.model.tables import Table

MADE, ALTERED, PARTITIONS, IN_STEP = "made", "altered", "partitions", "in step"


class ExportedRelation:
    """A table or view that is exported.

    Args:
        index: The index.
        client: The metastore that gets it.
        relation: The table or view.
        dry_run: Whether nothing is sent.

    Attributes:
        action: What was done to it, or in a preview would be.
        sent: Partitions that were added or altered.
        held: Partitions that the metastore can hold.
        kept: Partitions that only the metastore has.
    """

    def __init__(self, index: Index, client: HiveMetastore, relation: Table | View, *, dry_run: bool) -> None:
        self._index = index
        self._client = client
        self._relation = relation
        self._table = table_of(relation)
        self._dry_run = dry_run
        self.action = IN_STEP
        self.sent = self.held = self.kept = 0

    def send(self) -> None:
        """Bring the metastore to the index's state, or in a preview find what that takes.

        Raises:
            MetastoreRefusedError: It has another table of the name.
            InvalidInputError: It has a table of the view's name.
        """
        found = find_table(self._client, self._table.identifier)
        if isinstance(self._relation, View):
            self._send_view(self._relation, found)
        else:
            self._send_table(found)

    def _carry_out(self, message: Message, action: str) -> None:
        if self.action == IN_STEP:
            self.action = action
        if not self._dry_run:
            carry_out(self._client, message)

    def _send_partitions(self, differ: Sequence[PublishedPartition], location: str) -> None:
        if differ:
            self.sent += len(differ)
            # The user has said that the index is right: also about places.
            altered = tuple(replace(partition, moved=True) for partition in differ)
            message = SyncPartitions(self._table.identifier, altered=altered, location=location)
            self._carry_out(message, PARTITIONS)

    def _send_table(self, found: HiveTable | None) -> None:
        definition = self._table.definition
        if found is None:
            self._carry_out(CreateTable(definition), MADE)
        else:
            check_ours(found, definition)
            retype = key_types_differ(found, definition)
            if retype or definition_differs(found, definition):
                kept = tuple(each.to_dict() for each in self._index.descriptors.of_table(self._table).values())
                self._carry_out(AlterTable(definition, rebuild=True, retype=retype, kept=kept), ALTERED)
        there = 0
        for page in compared_pages(self._index, self._client, self._table, found):
            differ = [partition for partition in page.partitions if partition.name in page.differ]
            if definition.partition_columns:
                self._send_partitions(differ, definition.location)
            else:
                for partition in differ:
                    message = AlterTableStatistics(definition.identifier, partition.parameters, definition.location)
                    self._carry_out(message, ALTERED)
            self.held += len(page.partitions)
            there += page.there
        if found is not None and definition.partition_columns:
            ours = there if self._dry_run else self.held
            self.kept = sum(1 for _ in self._client.partition_names(found.database, found.name)) - ours

    def _send_view(self, view: View, found: HiveTable | None) -> None:
        if found is not None and found.table_type != VIRTUAL_VIEW:
            raise InvalidInputError(f"The metastore has a table {found}, which our view cannot replace.")
        if found is None or view_differs(found, view.table.definition, view.query):
            self._carry_out(PutView(view.table.definition, view.query), MADE if found is None else ALTERED)
        missing, unknown = view_partitions(self._index, self._client, view.table, found)
        self._send_partitions(missing, "")
        self.kept = len(unknown)
