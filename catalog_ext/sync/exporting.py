"""Exports tables to a metastore that is not the index's own and may be empty, or as HiveQL statements."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import embedded_folder
from catalog_ext.identity.record import EMBEDDED_AT, METASTORE, METASTORE_ID
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    InvalidConfigurationError,
    InvalidInputError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.embedded.lease import read_state
from catalog_ext.metastore.hive.identity import metastore_id
from catalog_ext.metastore.hive.mapping.conversion import to_hive_database, unrepresentable_reason
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.alter_table import make_database
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.compare import check_ours, definition_differs, key_types_differ
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.metastore.hive.thrift.uris import Address, parse_uris
from catalog_ext.metastore.messages import AlterTable, AlterTableStatistics, CreateTable, PutView, SyncPartitions
from catalog_ext.metastore.model.identifiers import TablePattern, no_table_matches
from catalog_ext.metastore.model.partition_names import metastore_obstacle
from catalog_ext.metastore.model.views import View
from catalog_ext.sync.hive_statements import database_statements, left_out, table_statements, view_statements
from catalog_ext.sync.metastore_differences import compared_pages, view_partitions
from catalog_ext.sync.tables import find_table, relations, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.conf.resolved import Settings
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Message, PublishedPartition
    from catalog_ext.metastore.model.tables import Table


MADE, ALTERED, PARTITIONS, IN_SYNC, REFUSED, LEFT_OUT = (
    "made", "altered", "partitions", "in sync", "refused", "left out",
)  # fmt: skip
_NO_BUCKETS = "it is bucketed ({}) in the metastore that it was imported from; there it is made without buckets"
_TWIN = "another partition has equal values in another spelling"


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """The result for a table, a view, or a partition that no metastore can store.

    Attributes:
        table: ``namespace.table``.
        action: ``made``, ``altered``, ``partitions``, ``in sync``, ``refused`` (the metastore has another table of this
            name) or ``left out`` (no metastore can store it).
        partition: The partition's name if the entry is about a partition; otherwise ``''``.
        sent: The number of partitions that were added or altered in the metastore.
        kept: The number of partitions that only that metastore has; they stay.
        reason: The reason for ``refused`` or ``left out``, or None.
    """

    table: str
    action: str
    partition: str = ""
    sent: int = 0
    kept: int = 0
    reason: str | None = None


class _ExportedRelation:
    """The export of one table or view.

    Args:
        index: The index.
        client: The metastore to which the table is sent.
        relation: The table or view.
        dry_run: Whether nothing is sent.

    Attributes:
        action: What was done, or in a preview would be done.
        sent: The number of partitions that were added or altered in the metastore.
        held: The number of partitions that the metastore can store.
        kept: The number of partitions that only the metastore has.
    """

    def __init__(self, index: Index, client: HiveMetastore, relation: Table | View, *, dry_run: bool) -> None:
        self._index = index
        self._client = client
        self._relation = relation
        self._table = table_of(relation)
        self._dry_run = dry_run
        self.action = IN_SYNC
        self.sent = self.held = self.kept = 0

    def send(self) -> None:
        """Send the differences to the metastore; in a preview, only find them.

        Raises:
            MetastoreRefusedError: The metastore has another table of the same name.
            InvalidInputError: The metastore has a table with the view's name.
        """
        found = find_table(self._client, self._table.identifier)
        if isinstance(self._relation, View):
            self._send_view(self._relation, found)
        else:
            self._send_table(found)

    def _carry_out(self, message: Message, action: str) -> None:
        if self.action == IN_SYNC:
            self.action = action
        if not self._dry_run:
            carry_out(self._client, message)

    def _send_partitions(self, differ: Sequence[PublishedPartition], location: str) -> None:
        if differ:
            self.sent += len(differ)
            # Overwrite the metastore's locations too: by calling ``export`` the user has decided that the index is
            # right.
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

    def _send_view(self, view: View, table: HiveTable | None) -> None:
        if table is not None and table.table_type != VIRTUAL_VIEW:
            raise InvalidInputError(
                f"The metastore has a table {table}, which the index's view of that name cannot replace."
            )
        if table is None or view_differs(table, view.table.definition, view.query):
            self._carry_out(PutView(view.table.definition, view.query), MADE if table is None else ALTERED)
        missing, unknown = view_partitions(self._index, self._client, view.table, table)
        self._send_partitions(missing, "")
        self.kept = len(unknown)


class Exporting:
    """Exports tables of an index to other metastores."""

    def __init__(self, index: Index, settings: Settings) -> None:
        self._index = index
        self._settings = settings

    def export(self, pattern: str | None = None, *, to: str, dry_run: bool = False) -> Iterator[ExportEntry]:
        """Send tables and views to a metastore; yield each result as it is done.

        A repeated export sends the differences; nothing is dropped in the other metastore. The index keeps its own
        metastore.

        Args:
            pattern: A database, or a database and its tables with ``*`` and ``?``; None for all.
            to: ``thrift://host:9083``; several with commas are equal servers.
            dry_run: Preview: compare, and change nothing.

        Raises:
            InvalidInputError: The pattern is not valid.
            TableNotFoundError: No table matches the pattern.
            InvalidConfigurationError: The URIs are not valid, or are those of the index's own metastore.
            MetastoreUnavailableError: The metastore does not answer; tables sent before stay.
        """
        relations = self._relations(pattern)
        # Replace the metastore in the settings: with an embedded metastore of its own, the index would connect without
        # TLS, Kerberos and user.
        client = replace(self._settings, metastore=to).connect_metastore(to)
        return self._export(client, relations, to, dry_run=dry_run)

    def export_statements(self, pattern: str | None = None) -> Iterator[str]:
        """Yield HiveQL statements, without semicolons, with which a Hive engine creates tables, partitions and views.

        A part that no statement can express becomes a comment (``-- …``) with the reason. Statistics are not included.

        Args:
            pattern: A database, or a database and its tables with ``*`` and ``?``; None for all.

        Raises:
            InvalidInputError: The pattern is not valid.
            TableNotFoundError: No table matches the pattern.
        """
        return self._statements(self._relations(pattern))

    def _export(
        self, client: HiveMetastore, relations: Iterator[Table | View], metastore: str, *, dry_run: bool
    ) -> Iterator[ExportEntry]:
        try:
            if is_own(self._index.properties.load(), metastore, client):
                raise InvalidConfigurationError(
                    f"{metastore} is the index's own metastore, which is not exported to: catalog-ext publish --all "
                    "brings it to the index's state.",
                    {"metastore": metastore},
                )
            made: set[str] = set()
            for found in relations:
                namespace = table_of(found).identifier.namespace
                if namespace not in made and not dry_run:
                    make_database(client, to_hive_database(self._index.namespaces.load(namespace)))
                made.add(namespace)
                yield from self._one(client, found, dry_run=dry_run)
        finally:
            client.close()

    def _relations(self, pattern: str | None) -> Iterator[Table | View]:
        if pattern is None:
            return relations(self._index)
        found = relations(self._index, TablePattern.parse(pattern, self._settings.name))
        first = next(found, None)
        if first is None:
            raise no_table_matches(pattern, "The index has no table")
        return chain((first,), found)

    def _one(self, client: HiveMetastore, found: Table | View, *, dry_run: bool) -> Iterator[ExportEntry]:
        table = table_of(found)
        name = str(table.identifier)
        reason = unrepresentable_reason(table.definition)
        if reason is not None:
            yield ExportEntry(name, LEFT_OUT, reason=reason)
            return
        exported = _ExportedRelation(self._index, client, found, dry_run=dry_run)
        try:
            exported.send()
        except (MetastoreUnavailableError, IndexDatabaseError):
            raise
        except CatalogExtError as error:
            yield ExportEntry(name, REFUSED, sent=exported.sent, reason=error.message)
            return
        buckets = table.definition.bucketed_by if exported.action == MADE else None
        remark = None if buckets is None else _NO_BUCKETS.format(buckets)
        yield ExportEntry(name, exported.action, "", exported.sent, exported.kept, remark)
        if (
            not isinstance(found, View)
            and table.definition.partition_columns
            and exported.held < table.totals.partitions
        ):
            yield from (ExportEntry(name, LEFT_OUT, *each) for each in self._left_out(table))

    def _left_out(self, table: Table) -> Iterator[tuple[str, int, int, str]]:
        """Yield the partitions that no metastore can store, each with the reason, in the form of an export's entry."""
        for batch in self._index.partitions.unordered(table, None, ("partition",)):
            names = batch.column("partition").to_pylist()
            obstacles = {each: metastore_obstacle(each) for each in names}
            yield from ((each, 0, 0, why) for each, why in obstacles.items() if why)
            free = [each for each in names if not obstacles[each]]
            held = {p.name for p in self._index.living_partitions.of_values(table, free) if not p.in_metastore}
            yield from ((each, 0, 0, _TWIN) for each in free if each in held)

    def _statements(self, relations: Iterator[Table | View]) -> Iterator[str]:
        made: set[str] = set()
        for found in relations:
            table = table_of(found)
            reason = unrepresentable_reason(table.definition)
            if reason is not None:
                yield left_out(str(table.identifier), reason)
                continue
            if table.identifier.namespace not in made:
                made.add(table.identifier.namespace)
                yield from database_statements(self._index.namespaces.load(table.identifier.namespace))
            if isinstance(found, View):
                yield from view_statements(self._index, found)
                continue
            yield from table_statements(self._index, table)
            if table.definition.partition_columns:
                for name, _, _, why in self._left_out(table):
                    yield left_out(f"the partition {name} of {table.identifier}", why)


def is_own(recorded: Mapping[str, str], uris: str, metastore: HiveMetastore) -> bool:
    """Return whether the metastore at the URIs is the index's own, by its id or else by its address.

    Args:
        recorded: The index's record of its metastore.
        uris: The URIs in question.
        metastore: A client for these URIs; called only if the index has recorded an id.

    Raises:
        MetastoreUnavailableError: The metastore does not answer.
    """
    known = recorded.get(METASTORE_ID)
    if known is not None and metastore_id(metastore) == known:
        return True
    ours, theirs = _addresses(recorded.get(METASTORE)), parse_uris(uris)
    return any(_is_same(one, other) for one in ours for other in theirs)


def _addresses(recorded: str | None) -> tuple[Address, ...]:
    if recorded is None:
        return ()
    if not recorded.startswith(EMBEDDED_AT):
        return parse_uris(recorded)
    state = read_state(embedded_folder(Path(recorded.removeprefix(EMBEDDED_AT))))
    return () if state is None else parse_uris(state.uri)


def _is_same(one: Address, other: Address) -> bool:
    if one.port != other.port:
        return False
    return one.host.lower() == other.host.lower() or bool(_places(one) & _places(other))


def _places(address: Address) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)}
    except OSError:
        # The host name cannot be resolved on this machine, so only the names are compared.
        return set()
