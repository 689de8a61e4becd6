"""The service's operations: each reads its request, calls the catalog, and answers. No logic lives here."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.conf.resolution import resolve
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.views import View
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.tree import Predicate, bind
from catalog_ext.procedures.registry import PROCEDURES, find_procedure
from catalog_ext.service.arrow_stream import ArrowStream
from catalog_ext.service.handlers.partitions import PartitionOperations
from catalog_ext.service.handlers.paths import PathOperations
from catalog_ext.service.handlers.views import ViewOperations, view_json
from catalog_ext.service.handlers.writes import WriteOperations
from catalog_ext.service.messages.core import Request, definition_of, namespace_json, table_json
from catalog_ext.service.messages.settings import given_of, settings_json, use_of
from catalog_ext.service.messages.tables import column_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table

CONTRACT = 1
_REMEMBERED_TABLES = 1024


Answer: TypeAlias = dict[str, Any] | ArrowStream


class Operations:
    """The operations of one catalog, by the contract's names."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # A table's keys never change under its id at one version: what `tables/load` saw spares `tables/plan` a query.
        self._tables: OrderedDict[tuple[int, int], Table] = OrderedDict()
        self._lock = Lock()
        self.handlers: Mapping[str, Callable[[Request], Answer]] = {
            "ping": self._ping,
            "namespaces/list": self._list_namespaces,
            "namespaces/load": self._load_namespace,
            "namespaces/create": self._create_namespace,
            "namespaces/alter": self._alter_namespace,
            "namespaces/drop": self._drop_namespace,
            "tables/list": self._list_tables,
            "views/list": self._list_views,
            "tables/load": self._load_table,
            "tables/create": self._create_table,
            "tables/alter": self._alter_table,
            "tables/rename": self._rename_table,
            "tables/drop": self._drop_table,
            "tables/plan": self._plan,
            "settings/resolve": self._resolve_settings,
            "partitions/list": self._list_partitions,
            "procedures/list": self._list_procedures,
            "procedures/call": self._call_procedure,
            **WriteOperations(catalog).handlers,
            **PathOperations(catalog).handlers,
            **PartitionOperations(catalog).handlers,
            **ViewOperations(catalog).handlers,
        }

    def _ping(self, request: Request) -> Answer:
        request.finish()
        return {"service": "catalog-ext", "contract": CONTRACT, "version": version("catalog-ext")}

    def _list_namespaces(self, request: Request) -> Answer:
        request.finish()
        return {"namespaces": self._catalog.list_namespaces()}

    def _load_namespace(self, request: Request) -> Answer:
        name = request.text("namespace")
        request.finish()
        return namespace_json(self._catalog.load_namespace(name))

    def _create_namespace(self, request: Request) -> Answer:
        name, properties = request.text("namespace"), request.text_map("properties")
        request.finish()
        location, comment = properties.pop("location", None), properties.pop("comment", None)
        return namespace_json(
            self._catalog.create_namespace(name, location=location, comment=comment, properties=properties)
        )

    def _alter_namespace(self, request: Request) -> Answer:
        name, set_, remove = request.text("namespace"), request.text_map("set"), request.texts("remove")
        request.finish()
        return namespace_json(self._catalog.alter_namespace(name, set_, remove))

    def _drop_namespace(self, request: Request) -> Answer:
        name, cascade = request.text("namespace"), request.flag("cascade")
        request.finish()
        self._catalog.drop_namespace(name, cascade=cascade)
        return {"dropped": True}

    def _list_tables(self, request: Request) -> Answer:
        name = request.text("namespace")
        request.finish()
        return {"tables": self._catalog.list_tables(name)}

    def _list_views(self, request: Request) -> Answer:
        name = request.text("namespace")
        request.finish()
        return {"views": self._catalog.views.list_names(name)}

    def _load_table(self, request: Request) -> Answer:
        identifier = request.identifier()
        request.finish()
        found = self._catalog.views.load_relation(str(identifier))
        return view_json(found) if isinstance(found, View) else self._loaded(found)

    def _create_table(self, request: Request) -> Answer:
        definition, location = definition_of(request)
        request.finish()
        return self._loaded(self._catalog.create_table(definition, location))

    def _alter_table(self, request: Request) -> Answer:
        identifier, set_, remove = request.identifier(), request.text_map("set"), request.texts("remove")
        changes, location = column_changes(request), request.optional_text("location")
        request.finish()
        altered = self._catalog.ddl.alter(str(identifier), changes, set_=set_, remove=remove, location=location)
        return self._loaded(altered)

    def _rename_table(self, request: Request) -> Answer:
        identifier, to = request.identifier(), TableIdentifier.of(request.text("to_namespace"), request.text("to_name"))
        request.finish()
        return self._loaded(self._catalog.ddl.rename(str(identifier), str(to)))

    def _drop_table(self, request: Request) -> Answer:
        identifier, purge = request.identifier(), request.flag("purge")
        request.finish()
        self._catalog.drop_table(str(identifier), purge=purge)
        return {"dropped": True}

    def _plan(self, request: Request) -> Answer:
        table, predicate = self._pinned(request)
        return ArrowStream.of(self._catalog.index.plan_files(table, predicate))

    def _list_partitions(self, request: Request) -> Answer:
        table, predicate = self._pinned(request)
        return ArrowStream.of(self._catalog.index.list_partitions(table, predicate))

    def _list_procedures(self, request: Request) -> Answer:
        request.finish()
        return {"procedures": [procedure.describe() for procedure in PROCEDURES]}

    def _call_procedure(self, request: Request) -> Answer:
        name, arguments = request.text("procedure"), request.mapping("arguments")
        request.finish()
        result = find_procedure(name).call(self._catalog, arguments)
        return ArrowStream(result.schema, result.batches)

    def _loaded(self, table: Table) -> Answer:
        with self._lock:
            key = (table.table_id, table.version)
            self._tables[key] = table
            self._tables.move_to_end(key)
            while len(self._tables) > _REMEMBERED_TABLES:
                self._tables.popitem(last=False)
        return {**table_json(table), "settings": self._settings_of(table)}

    def _settings_of(self, table: Table) -> dict[str, Any]:
        definition = table.definition
        return settings_json(str(definition.identifier), definition.properties, self._catalog.settings.conf)

    def _resolve_settings(self, request: Request) -> Answer:
        use, given = use_of(request), given_of(request, self._catalog.settings.conf)
        request.finish()
        return {"values": resolve(use, given)}

    def _pinned(self, request: Request) -> tuple[Table, Predicate | None]:
        table_id, pinned, condition = request.integer("table_id"), request.integer("version"), request.any("predicate")
        request.finish()
        with self._lock:
            table = self._tables.get((table_id, pinned))
        if table is None:
            table = self._catalog.index.load_table_by_id(table_id)
            if table.definition.table_type is not TableType.VIEW:  # whose keys may change
                self._loaded(table)
        predicate = None
        if condition is not None:
            predicate = bind(predicate_from_json(condition), table.definition.keys, str(table.identifier))
        return replace(table, version=pinned), predicate
