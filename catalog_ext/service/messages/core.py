"""Parses the JSON of requests, and writes tables as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.hive.mapping.clauses import StorageClauses
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import definition_to_dict
from catalog_ext.metastore.model.tables import Column, Table, TableDefinition, TableType
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.predicates.json import predicate_from_json
from catalog_ext.tables.serde import NamedFormat
from catalog_ext.writes.column_statistics import column_statistics, without_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.predicates.tree import Predicate

T = TypeVar("T")


class Request:
    """A request's JSON object. Each field that is read is type-checked, and a field that was not read is an error."""

    def __init__(self, body: object) -> None:
        if not isinstance(body, Mapping):
            raise InvalidInputError("The body of a request must be a JSON object.")
        self._body = dict(body)
        self._asked: set[str] = set()

    def _get(self, name: str, kinds: type | tuple[type, ...], what: str, *, required: bool = True) -> Any:  # noqa: ANN401
        self._asked.add(name)
        value = self._body.get(name)
        if value is None and not required:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is int):
            raise InvalidInputError(f"The field {name!r} of the request must be {what}.")
        return value

    def whole(self) -> dict[str, Any]:
        """Return the whole object, unchecked, for requests whose format another party defines, such as S3 events."""
        return dict(self._body)

    def text(self, name: str) -> str:
        """Return a required string."""
        return str(self._get(name, str, "a string"))

    def optional_text(self, name: str) -> str | None:
        """Return a string or None."""
        value = self._get(name, str, "a string or null", required=False)
        return None if value is None else str(value)

    def integer(self, name: str) -> int:
        """Return a required integer of at most 64 bits."""
        value = int(self._get(name, int, "an integer"))
        if not -(2**63) <= value < 2**63:
            raise InvalidInputError(f"The field {name!r} of the request must be an integer of at most 64 bits.")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return an integer of at most 64 bits, or None."""
        self._asked.add(name)
        return None if self._body.get(name) is None else self.integer(name)

    def count(self, name: str) -> int:
        """Return a required integer of at most 64 bits that is not negative."""
        value = self.integer(name)
        if value < 0:
            raise InvalidInputError(f"The field {name!r} of the request must not be negative.")
        return value

    def optional_count(self, name: str) -> int | None:
        """Return an integer of at most 64 bits that is not negative, or None."""
        self._asked.add(name)
        return None if self._body.get(name) is None else self.count(name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean; the default if it is left out."""
        value = self._get(name, bool, "true or false", required=False)
        return default if value is None else bool(value)

    def text_map(self, name: str) -> dict[str, str]:
        """Return an object of strings, empty when left out."""
        value = self._get(name, Mapping, "an object of strings", required=False) or {}
        if not all(isinstance(v, str) for v in value.values()):
            raise InvalidInputError(f"The field {name!r} of the request must be an object of strings.")
        return dict(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object of anything, empty when left out."""
        return dict(self._get(name, Mapping, "an object", required=False) or {})

    def optional_mapping(self, name: str) -> dict[str, Any] | None:
        """Return an object of anything, None when left out or null."""
        value = self._get(name, Mapping, "an object or null", required=False)
        return None if value is None else dict(value)

    def optional_object(self, name: str, read: Callable[[Request], T]) -> T | None:
        """Return the parsed object of a field, None if it is left out; every field of the object must be read."""
        value = self._get(name, Mapping, "an object or null", required=False)
        return None if value is None else Request(value).read(read)

    def objects(self, name: str, read: Callable[[Request], T]) -> list[T]:
        """Return the parsed objects of a list, empty if it is left out; every field of each must be read."""
        value = self._get(name, list, "a list of objects", required=False) or []
        if not all(isinstance(v, Mapping) for v in value):
            raise InvalidInputError(f"The field {name!r} of the request must be a list of objects.")
        return [Request(item).read(read) for item in value]

    def items(self, name: str) -> list[object]:
        """Return a list of anything, empty when left out."""
        return list(self._get(name, list, "a list", required=False) or [])

    def texts(self, name: str) -> list[str]:
        """Return a list of strings, empty when left out."""
        value = self._get(name, list, "a list of strings", required=False) or []
        if not all(isinstance(v, str) for v in value):
            raise InvalidInputError(f"The field {name!r} of the request must be a list of strings.")
        return list(value)

    def optional_texts(self, name: str) -> list[str] | None:
        """Return a list of strings, or None."""
        return None if self.any(name) is None else self.texts(name)

    def any(self, name: str) -> object:
        """Return the field's value of any type; None when left out."""
        self._asked.add(name)
        return self._body.get(name)

    def predicate(self, name: str) -> Predicate | None:
        """Return an unbound predicate or None."""
        value = self.any(name)
        return None if value is None else predicate_from_json(value)

    def columns(self, name: str) -> tuple[Column, ...]:
        """Return a list of columns, empty when left out."""
        value = self._get(name, list, "a list of columns", required=False) or []
        return tuple(_column(item) for item in value)

    def identifier(self) -> TableIdentifier:
        """Return the table that ``namespace`` and ``name`` identify."""
        return TableIdentifier.of(self.text("namespace"), self.text("name"))

    def read(self, read: Callable[[Request], T]) -> T:
        """Return the parsed request.

        Raises:
            InvalidInputError: There is an unknown field.
        """
        return self.done(read(self))

    def done(self, value: T) -> T:
        """Check that every field of the request was read, and return ``value``.

        Raises:
            InvalidInputError: There is an unknown field.
        """
        self.finish()
        return value

    def finish(self) -> None:
        """Check that every field of the request was read.

        Raises:
            InvalidInputError: There is an unknown field.
        """
        unknown = sorted(set(self._body) - self._asked)
        if unknown:
            raise InvalidInputError(f"The request has an unknown field {str(unknown[0])[:60]!r}.")


def _column(item: object) -> Column:
    if not isinstance(item, Mapping):
        raise InvalidInputError("A column of the request must be an object.")
    return Request(item).read(
        lambda column: Column(
            column.text("name"), str(parse_type(column.text("type"))), column.flag("nullable", default=True),
            column.optional_text("comment"), column.optional_text("default"),
        )
    )  # fmt: skip


def definition_of(request: Request) -> tuple[TableDefinition, str | None]:
    """Return the table definition in a ``tables/create`` request, and the location that it asks for."""
    kind = request.text("table_type")
    if kind not in (TableType.EXTERNAL, TableType.MANAGED):
        raise InvalidInputError(f"The field 'table_type' cannot be {kind[:40]!r}. Use EXTERNAL or MANAGED.")
    definition = TableDefinition(
        request.identifier(), TableType(kind), "", "", request.columns("columns"),
        request.columns("partition_columns"), request.text_map("options"), request.text_map("properties"),
        request.optional_text("comment"),
    )  # fmt: skip
    return _named_format(request).of(definition), request.optional_text("location")


def _named_format(request: Request) -> NamedFormat:
    using, default = request.optional_text("format"), request.optional_text("default_format")
    clauses = request.optional_object("storage", _storage_clauses)
    return NamedFormat(using, default=default) if clauses is None else NamedFormat(using, clauses, default)


def _storage_clauses(storage: Request) -> StorageClauses:
    fields = ("stored_as", "serde", "input_format", "output_format")
    return StorageClauses(*(storage.optional_text(name) for name in fields))


def table_json(table: Table) -> dict[str, Any]:
    """Return a table as JSON by the contract."""
    return {
        "table_id": table.table_id,
        **_definition_json(table.definition),
        "statistics": column_statistics(table),
        "created_at_ms": table.created_at_ms,
        "version": table.version,
        "totals": {
            "partitions": table.totals.partitions,
            "files": table.totals.files,
            "bytes": table.totals.bytes,
            "rows": table.totals.rows,
        },
    }


def planned_table_json(definition: TableDefinition) -> dict[str, Any]:
    """Return a table that is not created yet as JSON by the contract."""
    nothing = {"partitions": 0, "files": 0, "bytes": 0, "rows": 0}
    unknown = {"statistics": {}, "created_at_ms": None, "version": None, "totals": nothing}
    return {"table_id": None, **_definition_json(definition), **unknown}


def _definition_json(definition: TableDefinition) -> dict[str, Any]:
    return {
        **definition_to_dict(definition),
        "properties": without_statistics(definition.properties),
        "partition_mode": str(definition.partition_mode),
    }
