"""Answers the operations of partition commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.metastore.predicates.partition_specs import KeyComparison, Session
from catalog_ext.service.messages.writes import outcome_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.service.messages.core import Request


class PartitionOperations:
    """The operations ``partitions/…`` that change partitions, of one catalog."""

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
        partitions: list[tuple[dict[str, str | None], str | None]] = []
        for item in request.objects("partitions"):
            partitions.append((spec_of(item, "spec"), item.optional_text("location")))
            item.finish()
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.add(self._at(*given[0]), partitions, if_not_exists=given[1], session=session))

    def _drop(self, request: Request) -> dict[str, Any]:
        pinned, predicates = _table(request), [predicate_from_json(item) for item in request.items("predicates")]
        if_exists, purge, session = request.flag("if_exists"), request.flag("purge"), session_of(request)
        clauses = [clause_of(item) for item in request.objects("clauses")]
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(
            commands.drop(
                self._at(*pinned), predicates, clauses=clauses, if_exists=if_exists, purge=purge, session=session
            )
        )

    def _rename(self, request: Request) -> dict[str, Any]:
        pinned, from_, to = _table(request), spec_of(request, "from"), spec_of(request, "to")
        session = session_of(request)
        request.finish()
        return outcome_json(self._catalog.partition_commands.rename(self._at(*pinned), from_, to, session=session))

    def _relocate(self, request: Request) -> dict[str, Any]:
        pinned, spec, location = _table(request), spec_of(request, "spec"), request.text("location")
        session = session_of(request)
        request.finish()
        return outcome_json(
            self._catalog.partition_commands.relocate(self._at(*pinned), spec, location, session=session)
        )

    def _exchange(self, request: Request) -> dict[str, Any]:
        pinned, source = _table(request), (request.integer("source_id"), request.integer("source_version"))
        specs = [checked_spec(item, "specs") for item in request.items("specs")]
        session = session_of(request)
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.exchange(self._at(*pinned), self._at(*source), specs, session=session))

    def _at(self, table_id: int, version: int) -> Table:
        return self._catalog.writes.table_at(table_id, version)


def _table(request: Request) -> tuple[int, int]:
    return request.integer("table_id"), request.integer("version")


def spec_of(request: Request, name: str) -> dict[str, str | None]:
    """Return a partition spec: an object of texts or nulls."""
    return checked_spec(request.mapping(name), name)


def session_of(request: Request) -> Session:
    """Return the session that a statement runs in, in the field ``session``."""
    given = request.optional_object("session")
    if given is None:
        return Session()
    session = Session(given.optional_text("zone"), given.flag("case_sensitive"))
    given.finish()
    return session


_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in")


def clause_of(request: Request) -> list[KeyComparison]:
    """Return a PARTITION clause: an object with the list ``comparisons``.

    Raises:
        InvalidInputError: It is none.
    """
    comparisons = [_comparison(item) for item in request.objects("comparisons")]
    request.finish()
    if not comparisons:
        raise InvalidInputError("A PARTITION clause of the request has no comparisons.")
    return comparisons


def _comparison(item: Request) -> KeyComparison:
    key, operator, values = item.text("column"), item.text("op"), item.items("values")
    item.finish()
    texts = tuple(value for value in values if value is None or isinstance(value, str))
    if operator not in _OPERATORS or len(texts) < len(values) or (operator != "in" and len(texts) != 1) or not texts:
        raise InvalidInputError(
            f"A comparison of the request with {operator[:40]!r} is none: give one of {', '.join(_OPERATORS)} and "
            "'values' of text or null, one unless it is 'in'."
        )
    return KeyComparison(key, operator, texts)


def checked_spec(value: object, name: str) -> dict[str, str | None]:
    """Return the value, if it is a partition spec.

    Raises:
        InvalidInputError: It is none.
    """
    if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
        raise InvalidInputError(f"A partition spec in the field {name!r} must map names to text or null.")
    return value
