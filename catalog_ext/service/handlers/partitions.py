"""Handlers of the operations that change partitions and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.service.messages.partitions import checked_spec, clauses_of, session_of, spec_of
from catalog_ext.service.messages.writes import counted_files_of, outcome_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.service.messages.core import Request


class PartitionOperations:
    """Handlers of the operations ``partitions/…`` that change partitions, of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "partitions/add": self._add,
            "partitions/drop": self._drop,
            "partitions/rename": self._rename,
            "partitions/relocate": self._relocate,
            "partitions/exchange": self._exchange,
        }

    def _add(self, request: Request) -> dict[str, Any]:
        given, session = (_table(request), request.flag("if_not_exists")), session_of(request)
        partitions = request.objects("partitions", lambda item: (spec_of(item, "spec"), item.optional_text("location")))
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.add(self._at(*given[0]), partitions, if_not_exists=given[1], session=session))

    def _drop(self, request: Request) -> dict[str, Any]:
        pinned, predicates = _table(request), [predicate_from_json(item) for item in request.items("predicates")]
        if_exists, purge, given = request.done((request.flag("if_exists"), request.flag("purge"), clauses_of(request)))
        dropped = self._catalog.partition_commands.drop(
            self._at(*pinned), predicates, clauses=given, if_exists=if_exists, purge=purge
        )
        return outcome_json(dropped)

    def _rename(self, request: Request) -> dict[str, Any]:
        pinned, from_, to = _table(request), spec_of(request, "from"), spec_of(request, "to")
        session = request.done(session_of(request))
        return outcome_json(self._catalog.partition_commands.rename(self._at(*pinned), from_, to, session=session))

    def _relocate(self, request: Request) -> dict[str, Any]:
        pinned, spec, location = _table(request), spec_of(request, "spec"), request.text("location")
        session = request.done(session_of(request))
        return outcome_json(
            self._catalog.partition_commands.relocate(self._at(*pinned), spec, location, session=session)
        )

    def _exchange(self, request: Request) -> dict[str, Any]:
        pinned, source = _table(request), (request.integer("source_id"), request.integer("source_version"))
        specs = [checked_spec(item, "specs") for item in request.items("specs")]
        session = request.done(session_of(request))
        commands = self._catalog.partition_commands
        return outcome_json(commands.exchange(self._at(*pinned), self._at(*source), specs, session=session))

    def _at(self, table_id: int, version: int) -> Table:
        return self._catalog.writes.table_at(table_id, version)


def _table(request: Request) -> tuple[int, int]:
    return request.integer("table_id"), request.integer("version")


class StatisticsOperations:
    """The handler of the operation ``statistics/put`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {"statistics/put": self._put}

    def _put(self, request: Request) -> dict[str, Any]:
        table_id, version = request.integer("table_id"), request.integer("version")
        files, predicate = counted_files_of(request), request.predicate("predicate")
        columns, clauses = request.any("columns"), clauses_of(request, open_keys=True)
        publish = request.done(request.flag("publish", default=True))
        if columns is not None and not _is_text_by_column(columns):
            raise InvalidInputError("The field 'columns' of the request must be an object of objects of strings.")
        table = self._catalog.writes.table_at(table_id, version)
        outcome = self._catalog.statistics.put(table, files, columns, predicate, clauses, publish=publish)  # type: ignore[arg-type]
        return {**outcome_json(outcome), "transaction": None}


def _is_text_by_column(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(stats, dict) and all(isinstance(text, str) for text in stats.values()) for stats in value.values()
    )
