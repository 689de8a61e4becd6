"""Compares a view with the metastore's: its text, its columns, and its partitions, which are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import MISSING, Difference, DriftKind, Side, not_compared
from catalog_ext.drift.evidence import told_by_metastore
from catalog_ext.drift.pending import PendingDeliveries
from catalog_ext.drift.store_side import key_of
from catalog_ext.drift.table_drift import missing_in_metastore, pending_one
from catalog_ext.drift.words import HAS_IT
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    MetastoreUnavailableError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.views import view_differs
from catalog_ext.scan.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.views import View


def view_differences(index: Index, view: View, client: HiveMetastore | None) -> Generator[Difference, None, bool]:
    """Yield in what a view differs; return whether the metastore can still be asked.

    Raises:
        IndexDatabaseError: The index cannot be read.
    """
    if client is None or unrepresentable_reason(view.table.definition) is not None:
        return True
    scratch = Scratch()
    try:
        pending = PendingDeliveries(index, view.table, scratch)
        yield from pending.marked(_compared(index, view, client, pending))
    except IndexDatabaseError:
        raise
    except CatalogExtError as error:
        yield not_compared(str(view.table.identifier), error.message, side=Side.METASTORE, unavailable=error.retryable)
        return not isinstance(error, MetastoreUnavailableError)
    finally:
        scratch.close()
    return True


def _compared(index: Index, view: View, client: HiveMetastore, pending: PendingDeliveries) -> Iterator[Difference]:
    table, name = view.table, str(view.table.identifier)
    try:
        found = client.get_table(table.identifier.namespace, table.identifier.name)
    except TableNotFoundError:
        yield missing_in_metastore(table, pending)
        return
    evidence = str(told_by_metastore(found.parameters) or "")
    if found.table_type != VIRTUAL_VIEW:
        there = f"a table at {found.location}"
        yield pending_one(Difference(name, DriftKind.VIEW, "", None, "a view", there, evidence=evidence), pending)
        return
    if view_differs(found, table.definition, view.query):
        both = view.query.text, found.view_original_text or HAS_IT
        yield pending_one(Difference(name, DriftKind.VIEW, "", None, *both, evidence=evidence), pending)
    yield from _partitions(index, view, client, found, pending)


def _partitions(
    index: Index, view: View, client: HiveMetastore, found: HiveTable, pending: PendingDeliveries
) -> Iterator[Difference]:
    if not view.table.definition.partition_columns:
        return
    ours = {key_of(p.name): p.name for page in index.publications.pages(view.table) for p in page}
    theirs = {key_of(name): name for name in client.partition_names(found.database, found.name)}
    apart = sorted(ours.keys() ^ theirs.keys())
    waiting = pending.among(apart)
    for key in apart:
        subject = ours.get(key) or theirs[key]
        sides = (HAS_IT, MISSING) if key in ours else (MISSING, HAS_IT)
        why = pending.why if key in waiting else ""
        yield Difference(
            str(view.table.identifier), DriftKind.PARTITION, subject, None, *sides, evidence=why, pending=key in waiting
        )
