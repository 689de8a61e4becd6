"""Handlers of the operations that call procedures (SQL ``CALL``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import NotFoundError
from catalog_ext.procedures.procedure import SessionTable
from catalog_ext.procedures.registry import PROCEDURES, find_procedure
from catalog_ext.service.messages.partitions import session_of
from catalog_ext.service.rows_response import ArrowStream
from catalog_ext.tables.lookups import asked_again

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request


class ProcedureOperations:
    """Handlers of the operations ``procedures/…`` of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]] = {
            "procedures/list": self._list,
            "procedures/call": self._call,
        }

    def _list(self, request: Request) -> dict[str, Any]:
        name, catalog = request.done((request.optional_text("procedure"), request.optional_text("catalog")))
        namespace = "" if catalog is None else f"{catalog}.system."
        found = PROCEDURES if name is None else [find_procedure(name, namespace)]
        return {"procedures": [procedure.describe() for procedure in found]}

    def _call(self, request: Request) -> ArrowStream:
        name, arguments = request.text("procedure"), request.mapping("arguments")
        session_table, session = request.done((_session_table(request), session_of(request)))
        try:
            result = find_procedure(name).call(self._catalog, arguments, session_table, session.settings)
        except NotFoundError as error:
            asked = asked_again(self._catalog.index, error)
            if asked is error:
                raise
            raise asked from error
        return ArrowStream(result.schema, result.batches)


def _session_table(request: Request) -> SessionTable | None:
    return request.optional_object("session_table", lambda given: SessionTable(given.optional_text("location")))
