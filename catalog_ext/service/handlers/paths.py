"""Handlers of the operations on paths that a query names instead of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.conf.keys import USE_HIVE_PARTITIONING
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.model.json import columns_to_list
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.paths.adhoc import PathPlan, PathRequest, PathTable, load_path
from catalog_ext.scan.path_keys import CastKey
from catalog_ext.service.messages.settings import settings_json
from catalog_ext.service.rows_response import ArrowStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request


class PathOperations:
    """Handlers of the operations ``paths/…`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]] = {
            "paths/load": self._load,
            "paths/plan": self._plan,
        }

    def _load(self, request: Request) -> dict[str, Any]:
        asked = PathRequest(
            request.text("path"),
            request.optional_text("format"),
            request.optional_text("schema"),
            request.text_map("options"),
            request.flag("partitioning", default=USE_HIVE_PARTITIONING.read(request.text_map("session"))),
        )
        request.finish()
        self._catalog.allowed.require(asked.path)
        return {
            **_table_json(load_path(self._catalog.storage, asked)),
            "partitioning": asked.partitioning,
            "settings": settings_json(asked.path, {}, self._catalog.settings.conf),
        }

    def _plan(self, request: Request) -> ArrowStream:
        partitioning = request.flag("partitioning", default=True)
        keys = request.texts("keys")
        casts = request.objects("casts", _cast)
        predicate = request.predicate("predicate")
        plan = request.done(PathPlan(request.text("path"), keys if partitioning else None, casts, predicate))
        self._catalog.allowed.require(plan.path)
        return ArrowStream(PLAN_SCHEMA, plan.run(self._catalog.storage))


def _cast(item: Request) -> CastKey:
    return CastKey(item.text("name"), item.text("key"), parse_type(item.text("type")))


def _table_json(table: PathTable) -> dict[str, Any]:
    return {
        "path": table.path,
        "format": table.format,
        "location": str(table.root),
        "columns": columns_to_list(table.columns),
        "partition_columns": columns_to_list(table.partition_columns),
        "options": dict(table.options),
    }
