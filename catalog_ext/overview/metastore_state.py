"""The state of a table in the metastore, as far as the index knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats

if TYPE_CHECKING:
    from catalog_ext.metastore.index import TableSummary


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Whether the metastore has all changes of the index, as far as the index knows.

    Attributes:
        word: ``none``, ``in step``, ``pending``, ``failed``, ``set aside`` or ``cannot hold``.
        detail: The reason, or ``''``.
    """

    word: str
    detail: str


def metastore_state(summary: TableSummary, *, enabled: bool, now_ms: int) -> DeliveryState:
    """Return the state, without asking the metastore."""
    if not enabled:
        return DeliveryState("none", "")
    reason = unrepresentable_reason(summary.table.definition)
    if reason is not None:
        return DeliveryState("cannot hold", reason)
    if not summary.pending:
        return DeliveryState("in step", "")
    since = summary.pending_since_ms or now_ms
    detail = f"{counted(summary.pending, 'change')}, the oldest {formats.age(now_ms - since)} old"
    if summary.set_aside:
        return DeliveryState("set aside", detail)
    return DeliveryState("failed" if summary.failed else "pending", detail)
