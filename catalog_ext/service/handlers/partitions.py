"""Answers the operations of partition commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
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
        given = _table(request), request.flag("if_not_exists")
        partitions: list[tuple[dict[str, str | None], str | None]] = []
        for item in request.objects("partitions"):
            partitions.append((spec_of(item, "spec"), item.optional_text("location")))
            item.finish()
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.add(self._at(*given[0]), partitions, if_not_exists=given[1]))

    def _drop(self, request: Request) -> dict[str, Any]:
        pinned, predicates = _table(request), request.items("predicates")
        if_exists, purge = request.flag("if_exists"), request.flag("purge")
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.drop(self._at(*pinned), predicates, if_exists=if_exists, purge=purge))

    def _rename(self, request: Request) -> dict[str, Any]:
        pinned, from_, to = _table(request), spec_of(request, "from"), spec_of(request, "to")
        request.finish()
        return outcome_json(self._catalog.partition_commands.rename(self._at(*pinned), from_, to))

    def _relocate(self, request: Request) -> dict[str, Any]:
        pinned, spec, location = _table(request), spec_of(request, "spec"), request.text("location")
        request.finish()
        return outcome_json(self._catalog.partition_commands.relocate(self._at(*pinned), spec, location))

    def _exchange(self, request: Request) -> dict[str, Any]:
        pinned, source = _table(request), (request.integer("source_id"), request.integer("source_version"))
        specs = [checked_spec(item, "specs") for item in request.items("specs")]
        request.finish()
        commands = self._catalog.partition_commands
        return outcome_json(commands.exchange(self._at(*pinned), self._at(*source), specs))

    def _at(self, table_id: int, version: int) -> Table:
        return self._catalog.writes.table_at(table_id, version)


def _table(request: Request) -> tuple[int, int]:
    return request.integer("table_id"), request.integer("version")


def spec_of(request: Request, name: str) -> dict[str, str | None]:
    """Return a partition spec: an object of texts or nulls."""
    return checked_spec(request.mapping(name), name)


def checked_spec(value: object, name: str) -> dict[str, str | None]:
    """Return the value, if it is a partition spec.

    Raises:
        InvalidInputError: It is none.
    """
    if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
        raise InvalidInputError(f"A partition spec in the field {name!r} must map names to text or null.")
    return value
