"""The catalog's procedures, as ``CALL <catalog>.system.<name>(…)`` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.errors import InvalidInputError, ProcedureNotFoundError
from catalog_ext.procedures import partitions as partition_procedures
from catalog_ext.procedures import views as view_procedures
from catalog_ext.procedures.record_batches import in_batches
from catalog_ext.repair import report as repair_report

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW_NAMES = {
    pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.bool_(): "boolean", _TIMESTAMP: "timestamp",
}  # fmt: skip
_MAP = "map<string,string>"
_PYTHON_TYPES: dict[str, type] = {"string": str, "boolean": bool, _MAP: Mapping}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of type ``string``, ``boolean`` or ``map<string,string>``; a default of None means there is none."""

    name: str
    type: str
    comment: str
    required: bool = False
    default: str | bool | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a call, streamed."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: what it takes, what it gives, and its body."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    schema: pa.Schema
    body: Callable[[Catalog, Mapping[str, Any]], Iterator[pa.RecordBatch]]

    def describe(self) -> dict[str, Any]:
        """The procedure as the service's contract has it."""
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
        }

    def call(self, catalog: Catalog, arguments: Mapping[str, Any]) -> Result:
        """Run it with arguments by name.

        Raises:
            InvalidInputError: An argument is missing, unknown or of another type.
        """
        return Result(self.schema, self.body(catalog, self._bind(arguments)))

    def _bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(arguments) - {p.name for p in self.parameters})
        if unknown:
            raise InvalidInputError(
                f"The procedure {self.name} has no parameter {unknown[0][:60]!r}. Its parameters are: "
                f"{', '.join(p.name for p in self.parameters)}."
            )
        bound: dict[str, Any] = {}
        for parameter in self.parameters:
            value = arguments.get(parameter.name)
            if value is None:
                if parameter.required:
                    raise InvalidInputError(
                        f"The procedure {self.name} needs the argument {parameter.name} ({parameter.comment})."
                    )
                value = parameter.default
            elif not _is_of(value, parameter.type):
                raise InvalidInputError(
                    f"The argument {parameter.name} of procedure {self.name} must be a {parameter.type}, "
                    f"not {str(value)[:60]!r}."
                )
            bound[parameter.name] = value
        return bound


def _is_of(value: object, type_name: str) -> bool:
    if not isinstance(value, _PYTHON_TYPES[type_name]):
        return False
    return not isinstance(value, Mapping) or all(isinstance(v, str) for v in value.values())


_TABLE = Parameter("table", "string", "namespace.table", required=True)
_TABLE_SCHEMA = pa.schema([
    ("table", pa.string()), ("location", pa.string()), ("format", pa.string()), ("partition_columns", pa.string()),
    ("columns", pa.int32()), ("metastore", pa.string()),
])  # fmt: skip

_RECOVER_SCHEMA = pa.schema([
    ("transaction", pa.string()), ("table", pa.string()), ("operation", pa.string()), ("owner", pa.string()),
    ("action", pa.string()), ("files", pa.int64()), ("error", pa.string()),
])  # fmt: skip
_VACUUM_SCHEMA = pa.schema([
    ("action", pa.string()), ("path", pa.string()), ("bytes", pa.int64()), ("reason", pa.string()),
])  # fmt: skip
_STATUS_SCHEMA = pa.schema([
    ("kind", pa.string()), ("table", pa.string()), ("id", pa.string()), ("state", pa.string()),
    ("since", _TIMESTAMP), ("detail", pa.string()),
])  # fmt: skip
_ANY_TABLE = Parameter("table", "string", "namespace.table; all if left out")
_VIEW = Parameter("view", "string", "namespace.view", required=True)
_SPEC = Parameter("partition", _MAP, "values by partition column; __HIVE_DEFAULT_PARTITION__ is NULL", required=True)
_DRY_RUN = Parameter("dry_run", "boolean", "preview only", default=False)


def _table_row(catalog: Catalog, table: Table) -> Iterator[pa.RecordBatch]:
    definition = table.definition
    row = {
        "table": str(table.identifier),
        "location": definition.location,
        "format": definition.format,
        "partition_columns": ", ".join(f"{c.name} {c.type.upper()}" for c in definition.partition_columns),
        "columns": len(definition.columns),
        "metastore": catalog.metastore_state(table),
    }
    yield pa.RecordBatch.from_pylist([row], schema=_TABLE_SCHEMA)


def _register(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return _table_row(catalog, catalog.register_table(arguments["table"], **_without(arguments, "table")))


def _import(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return _table_row(catalog, catalog.import_table(arguments["table"], arguments["properties"]))


def _unregister(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    table = catalog.unregister_table(arguments["table"])
    return iter([pa.RecordBatch.from_pylist([{"table": str(table.identifier)}])])


def _repair(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return catalog.repair_partitions(arguments["table"], **_without(arguments, "table")).batches()


def _recover(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    rows = ({**asdict(t), "transaction": t.transaction_id} for t in catalog.recover(**arguments).transactions)
    return in_batches(rows, _RECOVER_SCHEMA)


def _vacuum(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    return in_batches((asdict(entry) for entry in catalog.vacuum(**arguments).entries), _VACUUM_SCHEMA)


def _status(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    rows = ({**e._asdict(), "since": e.since_ms * 1000} for e in catalog.status(**arguments))
    return in_batches(rows, _STATUS_SCHEMA)


def _view_partitions(
    body: Callable[[Catalog, Mapping[str, Any]], Iterator[dict[str, Any]]],
) -> Callable[[Catalog, Mapping[str, Any]], Iterator[pa.RecordBatch]]:
    return lambda catalog, arguments: in_batches(body(catalog, arguments), view_procedures.PARTITIONS_SCHEMA)


def _without(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


PROCEDURES: Sequence[Procedure] = (
    Procedure(
        "register_table",
        "Registers what lies at a location as an external table",
        (
            _TABLE,
            Parameter("location", "string", "the directory above the key=value directories", required=True),
            Parameter("format", "string", "parquet, orc, csv, json or text", default="parquet"),
            Parameter(
                "partition_columns", _MAP, "names and types of the keys; the keys in the paths, as STRING, if left out"
            ),
            Parameter("schema", "string", "the columns as DDL; read from the files if left out"),
            Parameter("options", _MAP, "reader options of the format"),
            Parameter("properties", _MAP, "table properties"),
        ),
        _TABLE_SCHEMA,
        _register,
    ),
    Procedure(
        "import_table",
        "Takes a table of the Hive Metastore into the index, with its partitions",
        (_TABLE, Parameter("properties", _MAP, "table properties")),
        _TABLE_SCHEMA,
        _import,
    ),
    Procedure(
        "unregister_table",
        "Forgets a table; its files and the metastore's table stay",
        (_TABLE,),
        pa.schema([("table", pa.string())]),
        _unregister,
    ),
    Procedure(
        "repair_partitions",
        "Brings the index and the metastore in step with the store",
        (
            _TABLE,
            Parameter("mode", "string", "add, drop or sync", default="add"),
            Parameter("where", "string", "a condition on partition columns that limits the repair"),
            _DRY_RUN,
            Parameter("strict", "boolean", "change nothing if a path would be skipped", default=False),
        ),
        repair_report.SCHEMA,
        _repair,
    ),
    Procedure(
        "drop_partitions",
        "Drops the partitions that a condition is true for; a managed table's data is deleted",
        (
            _TABLE,
            Parameter("where", "string", "a condition on partition columns", required=True),
            Parameter("purge", "boolean", "delete a managed table's data outside its directory too", default=False),
            _DRY_RUN,
        ),
        repair_report.SCHEMA,
        partition_procedures.drop_partitions,
    ),
    Procedure(
        "expire_partitions",
        "Drops the partitions whose time, by their values, is longer ago than the retention",
        (
            _TABLE,
            Parameter("retention", "string", "a duration such as 30d; partition.retention.period if left out"),
            _DRY_RUN,
        ),
        repair_report.SCHEMA,
        partition_procedures.expire_partitions,
    ),
    Procedure(
        "exchange_partitions",
        "Moves partitions of another table into this one, as ALTER TABLE ... EXCHANGE PARTITION does",
        (_TABLE, Parameter("source", "string", "the table that loses them", required=True), _SPEC),
        partition_procedures.OUTCOME_SCHEMA,
        partition_procedures.exchange_partitions,
    ),
    Procedure(
        "set_partition_location",
        "Makes a partition's files those of another place, as ALTER TABLE ... PARTITION ... SET LOCATION does",
        (_TABLE, _SPEC, Parameter("location", "string", "the place; relative to the table's", required=True)),
        partition_procedures.OUTCOME_SCHEMA,
        partition_procedures.set_partition_location,
    ),
    Procedure(
        "set_partition_columns",
        "Changes how a table's partition columns appear, and their types",
        (
            _TABLE,
            Parameter("mode", "string", "declared or virtual; as it is if left out"),
            Parameter("types", _MAP, "new types by partition column; as they are if left out"),
        ),
        partition_procedures.COLUMNS_SCHEMA,
        partition_procedures.set_partition_columns,
    ),
    Procedure(
        "recover",
        "Finishes or undoes writes whose owners are gone",
        (
            _ANY_TABLE,
            Parameter(
                "older_than", "string", "duration since the last sign of life, such as 0s; the lease if left out"
            ),
            _DRY_RUN,
        ),
        _RECOVER_SCHEMA,
        _recover,
    ),
    Procedure(
        "vacuum",
        "Removes files and versions that nothing needs any more",
        (
            _TABLE,
            Parameter("retention", "string", "age from which they go, such as 7d; vacuum.retention if left out"),
            _DRY_RUN,
        ),
        _VACUUM_SCHEMA,
        _vacuum,
    ),
    Procedure(
        "status",
        "Shows writes, waiting partitions and changes for the metastore that are under way",
        (_ANY_TABLE,),
        _STATUS_SCHEMA,
        _status,
    ),
    Procedure(
        "view_dependencies",
        "Shows what the partitions of a view were made of when they were added",
        (_VIEW, Parameter("partition", _MAP, "a maybe partial specification of the partitions; all if left out")),
        view_procedures.DEPENDENCIES_SCHEMA,
        lambda catalog, arguments: in_batches(
            view_procedures.view_dependencies(catalog, arguments), view_procedures.DEPENDENCIES_SCHEMA
        ),
    ),
    Procedure(
        "refresh_view_partitions",
        "Brings the partitions of an automatic view in step with its tables, and lists them",
        (_VIEW,),
        view_procedures.PARTITIONS_SCHEMA,
        _view_partitions(view_procedures.refresh_view_partitions),
    ),
    Procedure(
        "add_view_partition",
        "Adds a partition to a partitioned view, without dependencies, and lists what it has then",
        (_VIEW, _SPEC),
        view_procedures.PARTITIONS_SCHEMA,
        _view_partitions(view_procedures.add_view_partition),
    ),
    Procedure(
        "drop_view_partition",
        "Drops the partitions of a view that a specification names, and lists what it has then",
        (_VIEW, _SPEC),
        view_procedures.PARTITIONS_SCHEMA,
        _view_partitions(view_procedures.drop_view_partition),
    ),
)
_BY_NAME = {p.name: p for p in PROCEDURES}


def find_procedure(name: str) -> Procedure:
    """The procedure of this name, in any case.

    Raises:
        ProcedureNotFoundError: There is none.
    """
    procedure = _BY_NAME.get(name.lower())
    if procedure is None:
        raise ProcedureNotFoundError(
            f"There is no procedure {name[:60]!r}. The catalog's procedures are: {', '.join(_BY_NAME)}.",
            {"procedure": name[:60]},
        )
    return procedure
