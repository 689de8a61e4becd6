"""Handlers of the operations of writes: begin, stage, commit, abort, delete, load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import CatalogExtError, ConflictError, InvalidInputError
from catalog_ext.service.messages.core import Request, definition_of
from catalog_ext.service.messages.partitions import clauses_of, optional_spec, session_of
from catalog_ext.service.messages.writes import (
    begun_json,
    creates,
    files_of,
    kind_of,
    outcome_json,
    planned_of,
    transaction_of,
)
from catalog_ext.writes.writes import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import BegunWrite
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.service.in_flight import OpenWrites


class WriteOperations:
    """Handlers of the operations ``writes/…`` of one catalog. ``open_writes`` records which transactions are open."""

    def __init__(self, catalog: Catalog, open_writes: OpenWrites) -> None:
        self._catalog = catalog
        self._open = open_writes
        self.handlers: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "writes/begin": self._begin, "writes/locations": self._locations, "writes/heartbeat": self._heartbeat,
            "writes/stage": self._stage, "writes/commit": self._commit, "writes/abort": self._abort,
            "writes/release": self._release, "writes/delete": self._delete, "writes/load": self._load,
        }  # fmt: skip

    def _begin(self, request: Request) -> dict[str, Any]:
        kind = kind_of(request)
        batch = Batch(
            request.text("operation"), request.text("owner"), request.optional_text("app_id"),
            request.optional_count("app_version"), request.text_map("options"), request.text_map("session"),
            transaction_of(request), planned_of(request),
        )  # fmt: skip
        table_id, version = request.optional_integer("table_id"), request.optional_integer("version")
        predicate = request.predicate("predicate")
        clauses = clauses_of(request, session="clause_session")
        described = request.done(request.optional_object("definition", definition_of))
        if creates(kind):
            if described is None or (table_id is None) is not (version is None):
                raise InvalidInputError(
                    f"A write of the kind '{kind}' needs a 'definition'; 'table_id' and 'version' are those of the "
                    "table that it reads and replaces, or both are null."
                )
            definition, location = described
            read = None if table_id is None or version is None else (table_id, version)
            return self._begun(*self._catalog.writes.begin_creation(kind, definition, location, batch, read=read))
        if described is not None or table_id is None or version is None:
            raise InvalidInputError(f"A write of the kind '{kind}' needs 'table_id' and 'version' and no 'definition'.")
        begun = self._catalog.writes.begin(kind, table_id, version, batch, predicate=predicate, clauses=clauses)
        return self._begun(*begun)

    def _begun(self, begun: BegunWrite, table: Table | TableDefinition) -> dict[str, Any]:
        if not begun.duplicate:
            self._open.begun(begun.transaction_id)
        return begun_json(begun, table)

    def _locations(self, request: Request) -> dict[str, Any]:
        transaction, partitions = request.done((transaction_of(request), request.texts("partitions")))
        return {"partition_directories": self._catalog.writes.transactions.locate(transaction, partitions)}

    def _heartbeat(self, request: Request) -> dict[str, Any]:
        transaction = request.done(transaction_of(request))
        return {"expires_at_ms": self._catalog.writes.transactions.heartbeat(transaction)}

    def _stage(self, request: Request) -> dict[str, Any]:
        transaction, files, staged = request.done((transaction_of(request), files_of(request), request.count("staged")))
        self._catalog.writes.transactions.stage(transaction, files, staged)
        return {"staged": len(files)}

    def _commit(self, request: Request) -> dict[str, Any]:
        transaction, files = transaction_of(request), files_of(request)
        static, watermark_ms = request.optional_text("keep"), request.optional_integer("watermark_ms")
        final, again, staged = request.done((request.flag("final"), request.flag("again"), request.count("staged")))
        transactions = self._catalog.writes.transactions
        try:
            outcome = transactions.commit(
                transaction, files, recorded=staged, static_partition=static, watermark_ms=watermark_ms, final=final,
                is_retry=again,
            )  # fmt: skip
        except CatalogExtError as error:
            # After a retryable error the client sends the commit again, so the write stays open. A conflict is final.
            if not error.retryable or isinstance(error, ConflictError):
                self._open.ended(transaction)
            raise
        self._open.ended(transaction)
        return outcome_json(outcome)

    def _abort(self, request: Request) -> dict[str, Any]:
        transaction, reason = request.done((transaction_of(request), request.text("reason")))
        try:
            self._catalog.writes.transactions.abort(transaction, reason)
        finally:
            # Mark the write as ended even if the abort failed: no client repeats an abort.
            self._open.ended(transaction)
        return {"aborted": True}

    def _release(self, request: Request) -> dict[str, Any]:
        table_id, app_id, owner = request.integer("table_id"), request.text("app_id"), request.text("owner")
        options, session = request.done((request.text_map("options"), request.text_map("session")))
        outcome = self._catalog.writes.release(table_id, app_id, owner, options, session)
        return {"released": False} if outcome is None else {"released": True, **outcome_json(outcome)}

    def _delete(self, request: Request) -> dict[str, Any]:
        table_id, version = request.integer("table_id"), request.integer("version")
        operation, predicate, clauses = request.text("operation"), request.predicate("predicate"), clauses_of(request)
        request.finish()
        if operation not in ("delete", "truncate"):
            raise InvalidInputError(
                f"The field 'operation' of the request cannot be {operation[:40]!r}. Use 'delete' or 'truncate'."
            )
        truncate = operation == "truncate"
        deleted = self._catalog.writes.delete(table_id, version, predicate, truncate=truncate, clauses=clauses)
        return outcome_json(deleted)

    def _load(self, request: Request) -> dict[str, Any]:
        table_id, version = request.integer("table_id"), request.integer("version")
        path, spec, overwrite = request.text("path"), optional_spec(request, "spec"), request.flag("overwrite")
        session = request.done(session_of(request))
        # A load without overwrite does not depend on the table's content, so it uses the newest version.
        table = self._catalog.writes.table_at(table_id, version if overwrite else None)
        return outcome_json(self._catalog.loading.load(table, path, spec, overwrite=overwrite, session=session))
