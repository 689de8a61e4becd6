"""Answers the operation of statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.service.messages.partitions import clauses_of
from catalog_ext.service.messages.writes import counted_files_of, outcome_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request


class StatisticsOperations:
    """The operation ``statistics/put`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {"statistics/put": self._put}

    def _put(self, request: Request) -> dict[str, Any]:
        table_id, version = request.integer("table_id"), request.integer("version")
        files, predicate = counted_files_of(request), request.predicate("predicate")
        columns, clauses = request.any("columns"), clauses_of(request, open_keys=True)
        publish = request.flag("publish", default=True)
        request.finish()
        if columns is not None and not _is_text_by_column(columns):
            raise InvalidInputError("The field 'columns' of the request must be an object of objects of strings.")
        table = self._catalog.writes.table_at(table_id, version)
        outcome = self._catalog.statistics.put(table, files, columns, predicate, clauses, publish=publish)  # type: ignore[arg-type]
        return {**outcome_json(outcome), "transaction": None}


def _is_text_by_column(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(stats, dict) and all(isinstance(text, str) for text in stats.values()) for stats in value.values()
    )
