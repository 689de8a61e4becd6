"""The totals of a table, its delivery state for the metastore, and the statement that compacts a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.model.tables import PartitionMode
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.model.types import quote_name, quote_text
from catalog_ext.metastore.model.values import value_text
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats
from catalog_ext.sync.tables import table_of

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.table_list import TableSummary
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Whether the metastore has all changes of the index, as far as the index knows.

    Attributes:
        word: ``none``, ``in sync``, ``pending``, ``failed``, ``set aside`` or ``cannot hold``.
        detail: The reason, or ``''``.
    """

    word: str
    detail: str


def load_summary(index: Index, identifier: TableIdentifier) -> TableSummary:
    """Return a table or view with its totals.

    Raises:
        TableNotFoundError: There is no table or view of that name.
    """
    found = index.views.load_relation(identifier)
    summary = index.overviews.tables.load(table_of(found).table_id)
    if summary is None:
        raise TableNotFoundError(f"The table {identifier} does not exist any more.")
    return summary


def metastore_state(summary: TableSummary, *, enabled: bool, now_ms: int) -> DeliveryState:
    """Return the table's delivery state from the index, without a request to the metastore."""
    if not enabled:
        return DeliveryState("none", "")
    reason = unrepresentable_reason(summary.table.definition)
    if reason is not None:
        return DeliveryState("cannot hold", reason)
    if not summary.pending:
        return DeliveryState("in sync", "")
    since = summary.pending_since_ms or now_ms
    detail = f"{counted(summary.pending, 'change')}, the oldest {formats.age(now_ms - since)} old"
    if summary.set_aside:
        return DeliveryState("set aside", detail)
    return DeliveryState("failed" if summary.failed else "pending", detail)


def compacting_statement(catalog: str, table: Table, partition: str) -> str:
    """Return an INSERT OVERWRITE that rewrites a partition; ``''`` stands for a table without partition columns.

    ``catalog`` is the catalog's name in SQL.
    """
    of, keys = table.definition, table.definition.keys
    name = ".".join(quote_name(part) for part in (catalog, of.identifier.namespace, of.identifier.name))
    # `SELECT *` omits virtual keys, and INSERT needs them after the other columns.
    hidden = [quote_name(key.name) for key in keys] if of.partition_mode is PartitionMode.VIRTUAL else []
    statement = f"INSERT OVERWRITE {name} SELECT {', '.join(['*', *hidden])} FROM {name}"
    conditions = [
        f"{quote_name(key.name)} " + ("IS NULL" if value is None else f"= {quote_text(value_text(value, key.type))}")
        for key, value in zip(keys, typed_values(partition, keys), strict=True)
    ]
    return statement + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
