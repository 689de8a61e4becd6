"""Handlers of namespaces and tables: definitions, files for queries, metadata tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from catalog_ext.conf.resolution import resolve
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import namespace_to_dict
from catalog_ext.metastore.model.views import View
from catalog_ext.metastore.runtime.measures import Planned, emit
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.service.handlers.views import view_json
from catalog_ext.service.messages.core import Request, definition_of, planned_table_json, table_json
from catalog_ext.service.messages.partitions import (
    among_of,
    clauses_of,
    metadata_groups_of,
    optional_spec,
    session_of,
    staleness_of,
    wanted_of,
)
from catalog_ext.service.messages.settings import given_of, settings_json, use_of
from catalog_ext.service.messages.tables import (
    as_of_of,
    column_changes,
    descriptors_json,
    hive_clauses_json,
    metadata_json,
    removals_of,
)
from catalog_ext.service.rows_response import ArrowStream
from catalog_ext.writes.metadata_tables import require_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


class NamespaceOperations:
    """Handlers of the operations ``namespaces/…`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "namespaces/list": self._list,
            "namespaces/load": self._load,
            "namespaces/create": self._create,
            "namespaces/alter": self._alter,
            "namespaces/drop": self._drop,
        }

    def _list(self, request: Request) -> dict[str, Any]:
        request.finish()
        return {"namespaces": self._catalog.list_namespaces()}

    def _load(self, request: Request) -> dict[str, Any]:
        name = request.done(request.text("namespace"))
        return namespace_to_dict(self._catalog.load_namespace(name))

    def _create(self, request: Request) -> dict[str, Any]:
        name, properties = request.done((request.text("namespace"), request.text_map("properties")))
        location, comment = properties.pop("location", None), properties.pop("comment", None)
        return namespace_to_dict(
            self._catalog.create_namespace(name, location=location, comment=comment, properties=properties)
        )

    def _alter(self, request: Request) -> dict[str, Any]:
        name, set_, remove = request.done((request.text("namespace"), request.text_map("set"), request.texts("remove")))
        return namespace_to_dict(self._catalog.alter_namespace(name, set_, remove))

    def _drop(self, request: Request) -> dict[str, Any]:
        name, cascade, session = request.done((request.text("namespace"), request.flag("cascade"), session_of(request)))
        self._catalog.drop_namespace(name, cascade=cascade, session=session.settings)
        return {"dropped": True}


class TableOperations:
    """Handlers of the operations ``tables/…``, ``partitions/list`` and ``partitions/groups`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]] = {
            "tables/list": self._list, "tables/load": self._load, "tables/create": self._create,
            "tables/alter": self._alter, "tables/set_serde": self._set_serde, "tables/rename": self._rename,
            "tables/drop": self._drop, "tables/hive_clauses": self._hive_clauses, "tables/plan": self._plan,
            "settings/load": self._load_settings, "settings/resolve": self._resolve_settings,
            "tables/changes": self._changes, "tables/metadata": self._metadata,
            "partitions/list": self._list_partitions, "partitions/groups": self._groups,
        }  # fmt: skip

    def _list(self, request: Request) -> dict[str, Any]:
        name = request.done(request.text("namespace"))
        return {"tables": self._catalog.list_tables(name)}

    def _load(self, request: Request) -> dict[str, Any]:
        identifier, metadata = request.identifier(), request.optional_text("metadata")
        as_of = request.done(as_of_of(request))
        found = self._catalog.views.load_relation(str(identifier))
        if isinstance(found, View):
            return view_json(found)
        if as_of is not None:
            if metadata is not None:
                require_versions(found, metadata)
            found = self._catalog.time_travel.load(found, as_of)
        return self._loaded(found) if metadata is None else self._loaded(found) | metadata_json(found, metadata)

    def _hive_clauses(self, request: Request) -> dict[str, Any]:
        table = request.done(self._catalog.load_table(str(request.identifier())))
        return hive_clauses_json(table)

    def _create(self, request: Request) -> dict[str, Any]:
        definition, location = definition_of(request)
        dry_run = request.done(request.flag("dry_run"))
        if dry_run:
            self._catalog.load_namespace(definition.identifier.namespace)
            return planned_table_json(self._catalog.complete_definition(definition, location))
        return self._loaded(self._catalog.create_table(definition, location))

    def _alter(self, request: Request) -> dict[str, Any]:
        identifier, set_, remove = request.identifier(), request.text_map("set"), request.texts("remove")
        changes, location = request.done((column_changes(request), request.optional_text("location")))
        altered = self._catalog.alterations.alter(str(identifier), changes, set_=set_, remove=remove, location=location)
        return self._loaded(altered)

    def _set_serde(self, request: Request) -> dict[str, Any]:
        identifier, serde = request.identifier(), request.optional_text("serde")
        properties = request.done(request.text_map("properties"))
        return self._loaded(self._catalog.alterations.set_serde(str(identifier), serde, properties))

    def _rename(self, request: Request) -> dict[str, Any]:
        identifier, to = request.identifier(), TableIdentifier.of(request.text("to_namespace"), request.text("to_name"))
        request.finish()
        return self._loaded(self._catalog.alterations.rename(str(identifier), str(to)))

    def _drop(self, request: Request) -> dict[str, Any]:
        identifier, purge, session = request.done((request.identifier(), request.flag("purge"), session_of(request)))
        self._catalog.drop_table(str(identifier), purge=purge, session=session.settings)
        return {"dropped": True}

    def _plan(self, request: Request) -> ArrowStream:
        (table_id, version), condition = _pinned(request), request.predicate("predicate")
        clauses, among, rows = clauses_of(request, open_keys=True), among_of(request), request.optional_count("limit")
        bounds, staleness = request.texts("bounds"), staleness_of(request)
        descriptor, unmeasured = request.done((request.optional_count("descriptor"), request.flag("unmeasured")))
        reads = self._catalog.reads
        return planned(
            lambda: reads.plan_files(
                table_id, version, condition, clauses, among, rows, bounds, staleness, descriptor, unmeasured=unmeasured
            )
        )

    def _groups(self, request: Request) -> ArrowStream:
        (table_id, version), condition = _pinned(request), request.predicate("predicate")
        keys, among = request.texts("keys"), among_of(request)
        wanted, staleness = request.done((wanted_of(request, len(keys)), staleness_of(request)))
        groups = self._catalog.reads.groups(table_id, version, condition, keys, wanted, among, staleness)
        return ArrowStream.of(groups)

    def _changes(self, request: Request) -> ArrowStream:
        table_id, after, upto = request.integer("table_id"), request.integer("after"), request.integer("upto")
        removals = request.done(removals_of(request))
        return ArrowStream.of(self._catalog.reads.changes(table_id, after, upto, removals))

    def _metadata(self, request: Request) -> ArrowStream:
        table_id, name, condition = request.integer("table_id"), request.text("name"), request.predicate("predicate")
        columns, groups = request.optional_texts("columns"), metadata_groups_of(request)
        numbers, version = request.done((request.predicate("numbers"), request.optional_count("version")))
        tables = self._catalog.metadata_tables
        if groups is None:
            return ArrowStream.of(tables.read(table_id, name, condition, columns, numbers, version))
        if columns is not None:
            raise InvalidInputError("A request with 'groups' has no 'columns'.")
        return ArrowStream.of(tables.groups(table_id, name, condition, *groups, numbers, version))

    def _list_partitions(self, request: Request) -> ArrowStream:
        (table_id, version), condition = _pinned(request), request.predicate("predicate")
        clauses, spec = request.done((clauses_of(request), optional_spec(request, "spec")))
        reads = self._catalog.reads
        if spec is None:
            return ArrowStream.of(reads.list_partitions(table_id, version, condition, clauses))
        if condition is not None or clauses.clauses:
            raise InvalidInputError("A request with a 'spec' has neither a 'predicate' nor 'clauses'.")
        return ArrowStream.of(reads.partition(table_id, version, spec, clauses.session))

    def _loaded(self, table: Table) -> dict[str, Any]:
        definition = self._catalog.reads.remember(table).definition
        settings = settings_json(str(definition.identifier), definition.properties, self._catalog.settings.conf)
        described = descriptors_json(self._catalog.reads.descriptors(table))
        return {**table_json(table), **described, "settings": settings}

    def _load_settings(self, request: Request) -> dict[str, Any]:
        table, properties = request.done((request.text("table"), request.text_map("properties")))
        return {"settings": settings_json(table, properties, self._catalog.settings.conf)}

    def _resolve_settings(self, request: Request) -> dict[str, Any]:
        use, given = request.done((use_of(request), given_of(request, self._catalog.settings.conf)))
        return {"values": resolve(use, given)}


def _pinned(request: Request) -> tuple[int, int]:
    """Return the table's id, and the version that the query is pinned to, from a request."""
    return request.integer("table_id"), request.integer("version")


def planned(plan: Callable[[], pa.RecordBatchReader]) -> ArrowStream:
    """Return a scan plan as a stream of record batches. After the last one, planning time without waits is reported.

    If the client stops early, the planning time of the files that it has read is reported.
    """
    started = time.monotonic()
    with span("plan_files"):
        reader = plan()
    return ArrowStream(reader.schema, _timed(reader, time.monotonic() - started))


def _timed(reader: pa.RecordBatchReader, seconds: float) -> Iterator[pa.RecordBatch]:
    files, batches = 0, iter(reader)
    with reader:
        try:
            while True:
                started = time.monotonic()
                batch = next(batches, None)
                seconds += time.monotonic() - started
                if batch is None:
                    break
                files += batch.num_rows
                yield batch
        finally:
            emit(Planned(files, seconds))
