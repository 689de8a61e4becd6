"""Finds the differences between store, index and metastore, for one table or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import (
    HAS_IT,
    MISSING,
    Difference,
    DriftKind,
    Side,
    changed_in_metastore,
    not_compared,
    waiting,
)
from catalog_ext.drift.table_drift import TableDrift, missing_in_metastore, of_definition
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    MetastoreUnavailableError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive, unrepresentable_reason
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.metastore.messages import DropTable, DropView, RenameTable
from catalog_ext.metastore.model.identifiers import TableIdentifier, TablePattern, is_pattern, no_table_matches
from catalog_ext.metastore.model.views import View
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.sync.metastore_differences import view_partitions
from catalog_ext.sync.pending import PendingMessages
from catalog_ext.sync.tables import find_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from catalog_ext.context import Context, Progress
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.repair.table_repair import TableRepair

_LEAVES = (DropTable.operation, DropView.operation, RenameTable.operation)
_AT_ONCE = 100


class Drift:
    """Compares tables on all three sides."""

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair

    def drift(
        self, table: str | None = None, *, exclude: Sequence[str] = (), progress: Progress | None = None
    ) -> Iterator[Difference]:
        """Yield the differences between store, index and metastore as they are found; nothing is changed.

        They include subjects that could not be compared, and pending deliveries of the outbox: see
        ``Difference.is_drift``.

        Args:
            table: One table or view, a database, or a database and its tables with ``*`` and ``?``; None for all tables
                of the index. For a database and for all, tables that only the metastore has, in the index's namespaces,
                are included.
            exclude: Databases, or tables with ``*`` and ``?``, to skip.
            progress: Called while a store is listed; None shows a bar in a notebook's cell.

        Raises:
            TableNotFoundError: The index has no such table, or no table of any side matches the pattern.
            InvalidInputError: A pattern is not valid.
            IndexDatabaseError: The index cannot be read.
        """
        catalog = self._context.settings.name
        left_out = [TablePattern.parse(each, catalog) for each in exclude]
        if table is None or is_pattern(table):
            chosen = TablePattern() if table is None else TablePattern.parse(table, catalog)
            return self._all(chosen, left_out, table, progress)
        found = self._context.index.views.load_relation(self._context.identify(table))
        return self._relation(found.table.identifier if isinstance(found, View) else found.identifier, progress)

    def _relation(self, identifier: TableIdentifier, progress: Progress | None) -> Iterator[Difference]:
        client, why = self._client()
        if why is not None:
            yield not_compared(str(identifier), why, side=Side.METASTORE, unavailable=True)
        yield from self._compared(identifier, client, progress)

    def _compared(
        self, identifier: TableIdentifier, client: HiveMetastore | None, progress: Progress | None
    ) -> Generator[Difference, None, bool]:
        """Yield the differences of one table or view; return whether the metastore still answers."""
        found = self._context.index.views.load_relation(identifier)
        if isinstance(found, View):
            return (yield from view_differences(self._context.index, found, client))
        comparison = TableDrift(self._context, self._repair, found, client, progress)
        yield from comparison.differences()
        return comparison.metastore_error is None

    def _client(self) -> tuple[HiveMetastore | None, str | None]:
        """Return the metastore's client, or why it is not available; neither if the catalog has no metastore."""
        if not self._context.metastore.enabled:
            return None, None
        try:
            return self._context.metastore.client(), None
        except MetastoreUnavailableError as error:
            return None, error.message

    def _all(
        self, chosen: TablePattern, left_out: Sequence[TablePattern], asked: str | None, progress: Progress | None
    ) -> Iterator[Difference]:
        client, why = self._client()
        index = self._context.index
        compared = 0

        def wanted(namespace: str, name: str) -> bool:
            return chosen.matches(namespace, name) and not any(each.matches(namespace, name) for each in left_out)

        for namespace in filter(chosen.has_namespace, index.namespaces.all()):
            known = sorted([*index.tables.all(namespace), *index.views.list_names(namespace)])
            compared += sum(map(chosen.has_table, known))
            for name in known:
                if not wanted(namespace, name):
                    continue
                identifier = TableIdentifier(namespace, name)
                if why is not None:
                    yield not_compared(str(identifier), why, side=Side.METASTORE, unavailable=True)
                try:
                    alive = yield from self._compared(identifier, client, progress)
                except (TableNotFoundError, NamespaceNotFoundError):
                    continue  # dropped meanwhile
                if client is not None and not alive:
                    client, why = None, "the metastore was found not to answer"
            if client is not None:
                for each in self._of_metastore_alone(client, namespace, set(known), wanted):
                    compared += 1
                    yield each
        if asked is not None and not compared:
            raise no_table_matches(asked, "The index has no table")

    def _of_metastore_alone(
        self, client: HiveMetastore, namespace: str, known: set[str], wanted: Callable[[str, str], bool]
    ) -> Iterator[Difference]:
        try:
            names = client.list_tables(namespace)
        except CatalogExtError as error:
            yield not_compared(namespace, error.message, side=Side.METASTORE, unavailable=error.retryable)
            return
        unknown = [name for name in names if name not in known and wanted(namespace, name)]
        leaving = self._leaving() if unknown else set()
        for name in unknown:
            subject = f"{namespace}.{name}"
            if subject in leaving:
                why = "the outbox has its end to deliver"
                yield Difference(subject, DriftKind.TABLE, "", None, MISSING, HAS_IT, evidence=why, pending=True)
                continue
            try:
                from_hive(client.get_table(namespace, name))
            except TableNotFoundError:
                continue  # dropped meanwhile
            except UnsupportedFormatError as error:
                # This table can never be imported, so it does not count as drift.
                yield Difference(subject, DriftKind.NOT_TAKEN, "", None, MISSING, HAS_IT, evidence=error.message)
                continue
            except CatalogExtError as error:
                yield not_compared(subject, error.message, side=Side.METASTORE, unavailable=error.retryable)
                continue
            how = f"to take it: catalog-ext import {subject}"
            yield Difference(subject, DriftKind.TABLE, "", None, MISSING, HAS_IT, evidence=how)

    def _leaving(self) -> set[str]:
        """Return the names of tables with a pending drop in the outbox."""
        leaving: set[str] = set()
        after = 0
        while found := self._context.index.outbox.pending(_AT_ONCE, after=after):
            leaving.update(each.subject for each in found if each.operation in _LEAVES)
            after = found[-1].outbox_id
        return leaving


def view_differences(index: Index, view: View, client: HiveMetastore | None) -> Generator[Difference, None, bool]:
    """Yield the differences of a view; return whether the metastore still answers.

    Raises:
        IndexDatabaseError: The index cannot be read.
    """
    if client is None or unrepresentable_reason(view.table.definition) is not None:
        return True
    try:
        pending = PendingMessages(index, view.table.identifier, view.table)
        yield from _compared(index, view, client, pending)
    except IndexDatabaseError:
        raise
    except CatalogExtError as error:
        yield not_compared(str(view.table.identifier), error.message, side=Side.METASTORE, unavailable=error.retryable)
        return not isinstance(error, MetastoreUnavailableError)
    return True


def _compared(index: Index, view: View, client: HiveMetastore, pending: PendingMessages) -> Iterator[Difference]:
    table, name = view.table, str(view.table.identifier)
    found = find_table(client, table.identifier)
    if found is None:
        yield missing_in_metastore(table, pending)
        return
    is_view = found.table_type == VIRTUAL_VIEW
    if not is_view or view_differs(found, table.definition, view.query):
        both = view.query.text, found.view_original_text or HAS_IT
        both = both if is_view else ("a view", f"a table at {found.location}")
        evidence = str(changed_in_metastore(found.parameters) or "")
        yield from of_definition([Difference(name, DriftKind.VIEW, "", None, *both, evidence=evidence)], pending)
    if not is_view:
        return
    missing, unknown = view_partitions(index, client, table, found)
    apart = {p.name: (HAS_IT, MISSING) for p in missing} | dict.fromkeys(unknown, (MISSING, HAS_IT))
    pending_keys = pending.among(map(key_of, apart))
    for partition, sides in sorted(apart.items()):
        difference = Difference(name, DriftKind.PARTITION, partition, None, *sides)
        yield waiting(difference, pending) if key_of(partition) in pending_keys else difference
