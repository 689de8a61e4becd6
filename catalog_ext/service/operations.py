"""The map from an operation's name in the contract (``docs/spec/service.md``) to its handler."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.service.handlers.events import EventOperations
from catalog_ext.service.handlers.partitions import PartitionOperations, StatisticsOperations
from catalog_ext.service.handlers.paths import PathOperations
from catalog_ext.service.handlers.procedures import ProcedureOperations
from catalog_ext.service.handlers.tables import NamespaceOperations, TableOperations
from catalog_ext.service.handlers.views import ViewOperations
from catalog_ext.service.handlers.writes import WriteOperations
from catalog_ext.service.in_flight import OpenWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request
    from catalog_ext.service.rows_response import ArrowStream

Operations: TypeAlias = "Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]]"

CONTRACT = 2


def operations_of(catalog: Catalog, open_writes: OpenWrites | None = None) -> Operations:
    """Return the handlers of all operations of a catalog, by the contract's names."""
    writes = WriteOperations(catalog, open_writes or OpenWrites(catalog.index.transactions.state_of))
    return {
        "ping": _ping,
        **NamespaceOperations(catalog).handlers,
        **TableOperations(catalog).handlers,
        **PartitionOperations(catalog).handlers,
        **StatisticsOperations(catalog).handlers,
        **writes.handlers,
        **ViewOperations(catalog).handlers,
        **PathOperations(catalog).handlers,
        **ProcedureOperations(catalog).handlers,
        **EventOperations(catalog).handlers,
    }


def _ping(request: Request) -> dict[str, Any]:
    request.finish()
    return {"service": "catalog-ext", "contract": CONTRACT, "version": version("catalog-ext")}
