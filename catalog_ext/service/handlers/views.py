"""Handlers of the operations on views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.views import Dependency, View, ViewQuery
from catalog_ext.service.messages.core import Request, table_json
from catalog_ext.views.views import NewViewPartition, ViewRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.changes import AppliedChanges

_CREATE, _CREATE_OR_REPLACE, _REPLACE = "create", "create_or_replace", "replace"


class ViewOperations:
    """Handlers of the operations ``views/…`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._views = catalog.views
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "views/list": self._list, "views/put": self._put, "views/drop": self._drop, "views/rename": self._rename,
            "views/refresh": self._refresh, "views/partitions/add": self._add_partitions,
            "views/partitions/drop": self._drop_partitions,
        }  # fmt: skip

    def _list(self, request: Request) -> dict[str, Any]:
        name = request.done(request.text("namespace"))
        return {"views": self._views.list_names(name)}

    def _put(self, request: Request) -> dict[str, Any]:
        kind, tables = request.text("kind"), request.optional_texts("tables")
        wanted = ViewRequest(
            request.identifier(), _query(request, tables or []), request.columns("columns"),
            tuple(request.texts("partition_columns")), request.text_map("properties"), request.optional_text("comment"),
            request.optional_text("owner") or "",
        )  # fmt: skip
        request.finish()
        if tables is None and wanted.needs_tables:
            return {"needs_tables": True}
        if kind == _REPLACE:
            return view_json(self._views.replace(wanted))
        if kind not in (_CREATE, _CREATE_OR_REPLACE):
            raise InvalidInputError(f"The field 'kind' of the request cannot be {kind[:40]!r}.")
        return view_json(self._views.create(wanted, or_replace=kind == _CREATE_OR_REPLACE))

    def _drop(self, request: Request) -> dict[str, Any]:
        identifier = request.done(request.identifier())
        self._views.drop(str(identifier))
        return {"dropped": True}

    def _rename(self, request: Request) -> dict[str, Any]:
        identifier, namespace, name = request.identifier(), request.text("new_namespace"), request.text("new_name")
        request.finish()
        return view_json(self._views.rename(str(identifier), str(TableIdentifier.of(namespace, name))))

    def _refresh(self, request: Request) -> dict[str, Any]:
        identifier = request.done(request.identifier())
        return view_json(self._views.refresh(str(identifier)))

    def _add_partitions(self, request: Request) -> dict[str, Any]:
        identifier, if_not_exists = request.identifier(), request.flag("if_not_exists")
        partitions = request.done(request.objects("partitions", _new_partition))
        return _commit_json(self._views.add_partitions(str(identifier), partitions, if_not_exists=if_not_exists))

    def _drop_partitions(self, request: Request) -> dict[str, Any]:
        identifier, if_exists = request.identifier(), request.flag("if_exists")
        specs = request.done(request.objects("partitions", _values))
        return _commit_json(self._views.drop_partitions(str(identifier), specs, if_exists=if_exists))


def _query(request: Request, tables: Sequence[str]) -> ViewQuery:
    return ViewQuery(
        request.text("text"), request.text("catalog"), tuple(request.texts("current_namespace")),
        request.text_map("configuration"), request.text("schema_mode"), tuple(request.texts("query_columns")),
        tuple(tables), request.optional_text("own_catalog") or "",
    )  # fmt: skip


def _new_partition(item: Request) -> NewViewPartition:
    dependencies = item.objects("dependencies", _dependency)
    return NewViewPartition(_values(item), tuple(dependencies), item.optional_text("location"))


def _dependency(item: Request) -> Dependency:
    return Dependency(item.text("relation"), tuple(item.texts("partitions")))


def _values(item: Request) -> dict[str, str | None]:
    values = item.mapping("spec")
    if not all(isinstance(v, str | None) for v in values.values()):
        raise InvalidInputError("The field 'spec' of a partition must be an object of strings and nulls.")
    return values


def view_json(view: View) -> dict[str, Any]:
    """Return a view as JSON by the contract: a table's fields, and ``view``."""
    query = view.query
    return {
        **table_json(view.table),
        "view": {
            "text": query.text,
            "catalog": query.catalog,
            "current_namespace": list(query.namespace),
            "configuration": dict(query.configuration),
            "schema_mode": query.schema_mode,
            "query_columns": list(query.query_columns),
            "tables": list(query.tables),
            "automatic": view.automatic,
        },
    }


def _commit_json(commit: AppliedChanges) -> dict[str, Any]:
    return {
        "version": commit.version,
        "partitions_added": commit.partitions_added,
        "partitions_removed": commit.partitions_dropped,
    }
