"""Answers the operations of tables: their definitions, what queries read of them, and their metadata tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.conf.resolution import resolve
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.views import View
from catalog_ext.service.arrow_stream import ArrowStream
from catalog_ext.service.handlers.views import view_json
from catalog_ext.service.messages.core import Request, definition_of, table_json
from catalog_ext.service.messages.settings import given_of, settings_json, use_of
from catalog_ext.service.messages.tables import column_changes, removals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate


class TableOperations:
    """The operations ``tables/…``, and ``partitions/list``, of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]] = {
            "tables/list": self._list,
            "tables/load": self._load,
            "tables/create": self._create,
            "tables/alter": self._alter,
            "tables/rename": self._rename,
            "tables/drop": self._drop,
            "tables/plan": self._plan,
            "settings/resolve": self._resolve_settings,
            "tables/changes": self._changes,
            "tables/metadata": self._metadata,
            "partitions/list": self._list_partitions,
        }

    def _list(self, request: Request) -> dict[str, Any]:
        name = request.text("namespace")
        request.finish()
        return {"tables": self._catalog.list_tables(name)}

    def _load(self, request: Request) -> dict[str, Any]:
        identifier = request.identifier()
        request.finish()
        found = self._catalog.views.load_relation(str(identifier))
        return view_json(found) if isinstance(found, View) else self._loaded(found)

    def _create(self, request: Request) -> dict[str, Any]:
        definition, location = definition_of(request)
        request.finish()
        return self._loaded(self._catalog.create_table(definition, location))

    def _alter(self, request: Request) -> dict[str, Any]:
        identifier, set_, remove = request.identifier(), request.text_map("set"), request.texts("remove")
        changes, location = column_changes(request), request.optional_text("location")
        request.finish()
        altered = self._catalog.alterations.alter(str(identifier), changes, set_=set_, remove=remove, location=location)
        return self._loaded(altered)

    def _rename(self, request: Request) -> dict[str, Any]:
        identifier, to = request.identifier(), TableIdentifier.of(request.text("to_namespace"), request.text("to_name"))
        request.finish()
        return self._loaded(self._catalog.alterations.rename(str(identifier), str(to)))

    def _drop(self, request: Request) -> dict[str, Any]:
        identifier, purge = request.identifier(), request.flag("purge")
        request.finish()
        self._catalog.drop_table(str(identifier), purge=purge)
        return {"dropped": True}

    def _plan(self, request: Request) -> ArrowStream:
        table_id, version, condition = _pinned(request)
        return ArrowStream.of(self._catalog.reads.plan_files(table_id, version, condition))

    def _changes(self, request: Request) -> ArrowStream:
        table_id, after, upto = request.integer("table_id"), request.integer("after"), request.integer("upto")
        removals = removals_of(request)
        request.finish()
        return ArrowStream.of(self._catalog.reads.changes(table_id, after, upto, removals))

    def _metadata(self, request: Request) -> ArrowStream:
        table_id, name, condition = request.integer("table_id"), request.text("name"), request.predicate("predicate")
        request.finish()
        return ArrowStream.of(self._catalog.metadata_tables.read(table_id, name, condition))

    def _list_partitions(self, request: Request) -> ArrowStream:
        table_id, version, condition = _pinned(request)
        return ArrowStream.of(self._catalog.reads.list_partitions(table_id, version, condition))

    def _loaded(self, table: Table) -> dict[str, Any]:
        definition = self._catalog.reads.remember(table).definition
        settings = settings_json(str(definition.identifier), definition.properties, self._catalog.settings.conf)
        return {**table_json(table), "settings": settings}

    def _resolve_settings(self, request: Request) -> dict[str, Any]:
        use, given = use_of(request), given_of(request, self._catalog.settings.conf)
        request.finish()
        return {"values": resolve(use, given)}


def _pinned(request: Request) -> tuple[int, int, Predicate | None]:
    """Return the number of a table, the version that a query has seen, and the predicate."""
    pinned = request.integer("table_id"), request.integer("version"), request.predicate("predicate")
    request.finish()
    return pinned
