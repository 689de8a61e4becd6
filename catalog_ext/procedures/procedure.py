"""The description of a procedure for SQL ``CALL``: its parameters, its result columns, and its Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.json import JsonObject

MAP = "map<string,string>"
TEXT, LONG = pa.string(), pa.int64()
TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW_TYPES = {"string": TEXT, "bigint": LONG, "int": pa.int32(), "boolean": pa.bool_(), "timestamp": TIMESTAMP}
_ARROW_NAMES = {arrow: name for name, arrow in _ARROW_TYPES.items()}
_PYTHON_TYPES: dict[str, type] = {"string": str, "boolean": bool, "bigint": int, MAP: Mapping}
_ROWS_AT_ONCE = 10_000
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of type ``string``, ``boolean``, ``bigint`` or ``map<string,string>``.

    A default of None means no default.

    Attributes:
        takes_boolean: Whether a string may also be given as a Boolean, as in ``verify => true``.
    """

    name: str
    type: str
    comment: str
    required: bool = False
    default: str | bool | None = None
    takes_boolean: bool = False

    @property
    def may_be_null(self) -> bool:
        """Whether NULL means that the argument was omitted."""
        return not self.required and self.default is None


@dataclass(frozen=True, slots=True)
class Result:
    """The result rows of a call, as a stream."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SessionTable:
    """A table of Spark's session catalog that has the same name as the table that a call creates.

    Attributes:
        location: Its location; None for a table without one.
    """

    location: str | None


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: its parameters, its result columns, and its Python function.

    Attributes:
        check_session: Raises if Spark's session catalog already has a table of the new table's name that conflicts with
            the call. Its arguments are the call's arguments and that table's location (None: no location). None if the
            procedure creates no table.
        takes_session: Whether the function gets the caller's session settings as the argument ``session``.
        body: The function. It returns result entries whose fields are named as the columns of ``schema``.
        touches: The parameters and result columns that name tables which a call may change.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    schema: pa.Schema
    body: Callable[[Catalog, Mapping[str, Any]], Iterable[Any]]
    check_session: Callable[[Mapping[str, Any], str | None], None] | None = None
    touches: tuple[str, ...] = ()
    takes_session: bool = False

    def describe(self) -> JsonObject:
        """Return the procedure as JSON by the service's contract."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": [
                {"name": p.name, "type": p.type, "required": p.required, "default": p.default, "comment": p.comment}
                for p in self.parameters
            ],
            "columns": [
                {"name": f.name, "type": _ARROW_NAMES[f.type], "nullable": True, "comment": None} for f in self.schema
            ],
            "touches": list(self.touches),
        }

    def call(
        self, catalog: Catalog, arguments: Mapping[str, object], session_table: SessionTable | None = None,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> Result:  # fmt: skip
        """Run the procedure with arguments by name.

        Args:
            catalog: The catalog of the procedure's tables.
            arguments: The arguments, by parameter name.
            session_table: The table of Spark's session catalog with the name of the table to create, if there is one.
            settings: The caller's session settings that a transaction stores, by key.

        Raises:
            InvalidInputError: An argument is missing, unknown or of another type.
        """
        bound = self._bind(arguments)
        if session_table is not None and self.check_session is not None:
            self.check_session(bound, session_table.location)
        if self.takes_session:
            bound["session"] = settings
        return Result(self.schema, _in_batches(self.body(catalog, bound), self.schema))

    def _bind(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        unknown_parameters = sorted(set(arguments) - {p.name for p in self.parameters})
        if unknown_parameters:
            raise InvalidInputError(
                f"The procedure {self.name} has no parameter {unknown_parameters[0][:60]!r}. Its parameters are: "
                f"{', '.join(p.name for p in self.parameters)}."
            )
        bound: dict[str, Any] = {}
        for parameter in self.parameters:
            given = parameter.name in arguments
            bound[parameter.name] = (
                self._checked(parameter, arguments[parameter.name]) if given else self._default(parameter)
            )
        return bound

    def _default(self, parameter: Parameter) -> str | bool | None:
        if parameter.required:
            raise InvalidInputError(
                f"The procedure {self.name} needs the argument {parameter.name} ({parameter.comment})."
            )
        return parameter.default

    def _checked(self, parameter: Parameter, value: object) -> object:
        if value is None and not parameter.may_be_null:
            remedy = "" if parameter.required else f" Leave it out for {parameter.default!r}."
            raise InvalidInputError(
                f"The argument {parameter.name} of procedure {self.name} ({parameter.comment}) cannot be NULL.{remedy}"
            )
        if parameter.takes_boolean and isinstance(value, bool):
            return str(value).lower()
        if value is not None and not _is_of(value, parameter.type):
            raise InvalidInputError(
                f"The argument {parameter.name} of procedure {self.name} must be a {parameter.type}, "
                f"not {str(value)[:60]!r}."
            )
        return value


def _is_of(value: object, type_name: str) -> bool:
    if not isinstance(value, _PYTHON_TYPES[type_name]) or (type_name == "bigint" and isinstance(value, bool)):
        return False
    return not isinstance(value, Mapping) or all(isinstance(v, str) for v in value.values())


def columns(text: str) -> pa.Schema:
    """Return the schema of columns such as ``table, files bigint``; a column without a type is a string."""
    named = (column.split() for column in text.split(", "))
    return pa.schema([(name, _ARROW_TYPES[kind[0]] if kind else TEXT) for name, *kind in named])


def _in_batches(found: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the entries in batches of at most 10,000; without entries yield no batch."""
    for chunk in batched(found, _ROWS_AT_ONCE):
        yield pa.RecordBatch.from_pylist([_row(entry, schema) for entry in chunk], schema=schema)


def _row(entry: Any, schema: pa.Schema) -> dict[str, Any]:  # noqa: ANN401 -- a mapping, a dataclass or a named tuple
    """Return an entry's fields by column; ``since`` and ``transaction`` from ``since_ms`` and ``transaction_id``."""
    if is_dataclass(entry) and not isinstance(entry, type):
        fields = asdict(entry)
    else:
        fields = entry if isinstance(entry, dict) else entry._asdict()
    if "since_ms" in fields:
        fields = {**fields, "since": fields["since_ms"] * 1000}
    if "transaction_id" in fields:
        fields = {**fields, "transaction": fields["transaction_id"]}
    return {name: fields[name] for name in schema.names}


TABLE = Parameter("table", "string", "name of the table: namespace.table", required=True)
SPEC = Parameter(
    "partition", MAP, "values by partition column; the value __HIVE_DEFAULT_PARTITION__ means NULL", required=True
)
DRY_RUN = Parameter("dry_run", "boolean", "show what would be done, change nothing", default=False)
