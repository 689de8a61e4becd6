"""Describes and reads the metadata tables, which show the effects of writes and repairs on a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.errors import InvalidInputError, OperationNotSupportedError
from catalog_ext.metastore.index.read.history import HISTORY_SCHEMA, TRANSACTIONS_SCHEMA
from catalog_ext.metastore.index.read.metadata_groups import AGGREGATED, Aggregate
from catalog_ext.metastore.index.read.metadata_rows import FILE_ROWS_SCHEMA, PARTITION_STATES_SCHEMA, NumberPredicate
from catalog_ext.metastore.index.read.partition_history import PARTITION_HISTORY_SCHEMA
from catalog_ext.metastore.index.write.repairs import REPAIRS_SCHEMA, SKIPPED_SCHEMA
from catalog_ext.metastore.index.write.version_holds import TAGS_SCHEMA
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import STRING, DataType, Field
from catalog_ext.metastore.predicates.conditions import bound_to, key_named
from catalog_ext.metastore.predicates.tree import columns_of
from catalog_ext.tables.reads import declared_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_VERSION = {"files": FILE_ROWS_SCHEMA, "partitions": PARTITION_STATES_SCHEMA}
_BY_PARTITION = {**_AT_VERSION, "partition_history": PARTITION_HISTORY_SCHEMA}
_WHOLE = {
    "history": HISTORY_SCHEMA,
    "repairs": REPAIRS_SCHEMA,
    "skipped": SKIPPED_SCHEMA,
    "tags": TAGS_SCHEMA,
    "transactions": TRANSACTIONS_SCHEMA,
}
NAMES = tuple(sorted((*_BY_PARTITION, *_WHOLE)))
"""The metadata tables that every table has."""

_VALUES = "values"
_LOCATIONS = frozenset({"location", "path"})
_FILE_PATHS = frozenset({"file_path"})
_TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("ms", tz="UTC"): "timestamp",
}
_OF_JSON = {"statistics": "map<string,struct<min:string,max:string,nulls:bigint>>"}
"""The types of columns whose values are JSON text."""


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """The columns of a metadata table, and how they are computed from the rows of ``MetadataTables.read``.

    Attributes:
        columns: The columns of a query, in order. The rows have a field of the same name for each, except ``values``.
        values: The column with the typed values of the partition columns, computed from the rows' ``partition``; None
            without such a column.
        locations: The columns that hold locations of partitions.
        file_paths: The columns that hold locations of files in the form of Spark's ``_metadata.file_path``.
        takes_condition: Whether its rows can be limited by a condition over the partition columns.
        numbers: The columns that ``MetadataTables.groups`` aggregates; without such a column it does not group either.
    """

    columns: tuple[Column, ...]
    values: str | None
    locations: tuple[str, ...]
    file_paths: tuple[str, ...]
    takes_condition: bool
    numbers: tuple[str, ...]


def describe_metadata_table(table: Table, name: str) -> MetadataTable | None:
    """Return the description of a table's metadata table; None for an unknown name."""
    schema = _BY_PARTITION.get(name, _WHOLE.get(name))
    if schema is None:
        return None
    sent = [Column(field.name, _OF_JSON.get(field.name, _TYPES[field.type])) for field in schema]
    locations, file_paths = (
        tuple(column.name for column in sent if column.name in names) for names in (_LOCATIONS, _FILE_PATHS)
    )
    by_partition, numbers = name in _BY_PARTITION, tuple(sorted(AGGREGATED.get(name, ())))
    if by_partition and table.definition.partition_columns:
        values = Column(_VALUES, str(_values_type(table.definition.partition_columns)))
        return MetadataTable((sent[0], values, *sent[1:]), _VALUES, locations, file_paths, by_partition, numbers)
    return MetadataTable(tuple(sent), None, locations, file_paths, by_partition, numbers)


def _values_type(keys: tuple[Column, ...]) -> DataType:
    # CHAR and VARCHAR keys become STRING, so that their values are not padded with blanks: paths have none either.
    types = ((key.name, key.data_type) for key in keys)
    return DataType("struct", fields=tuple(Field(name, STRING if of.is_string else of) for name, of in types))


def require_versions(table: Table, name: str) -> None:
    """Check that a metadata table can be read as of a version; unknown names pass.

    Raises:
        OperationNotSupportedError: The metadata table shows all versions.
    """
    if name in NAMES and name not in _AT_VERSION:
        raise OperationNotSupportedError(
            f"The metadata table {table.identifier}.{name} cannot be read as of an earlier version or time: it shows "
            "all versions. Leave out VERSION AS OF and TIMESTAMP AS OF, and the options versionAsOf and timestampAsOf.",
            {"table": str(table.identifier), "name": name},
        )


class MetadataTables:
    """The metadata tables of a catalog's tables."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(
        self, table_id: int, name: str, condition: Predicate | None = None, columns: Sequence[str] | None = None,
        numbers: Predicate | None = None, version: int | None = None,
    ) -> pa.RecordBatchReader:  # fmt: skip
        """Read a metadata table, one of ``NAMES``; ``partitions`` and ``files`` at a version, by default the newest.

        Rows of ``partitions`` and ``files`` can be limited by unbound predicates: ``condition`` over the partition
        columns and ``numbers`` over the numeric columns. With an empty list of columns the batches have only row
        counts.

        Raises:
            InvalidInputError: There is no metadata table or column of that name, or the table accepts no condition.
            OperationNotSupportedError: A version is given for a metadata table that shows all versions.
            InvalidPredicateError, InvalidValueError: The condition does not fit the table's partition columns.
        """
        if name not in NAMES:
            raise InvalidInputError(
                f"There is no metadata table {name[:60]!r}. There are: {', '.join((*_BY_PARTITION, *_WHOLE))}."
            )
        table = self._at(table_id, version)
        if version is not None:
            require_versions(table, name)
        if name in _WHOLE:
            if any(given is not None for given in (condition, columns, numbers)):
                raise InvalidInputError(
                    f"The metadata table '{name}' has no partition columns and takes no predicate, columns or groups."
                )
            return self._whole(name, table)
        if columns is not None:
            _require(name, columns, _BY_PARTITION[name].names, "column")
        bound, only = bound_to(table, condition), _numbers(name, numbers)
        rows = self._rows(name, table, bound, columns, only, waiting=version is None)
        return declared_batches(table, rows) if columns is None or "partition" in columns else rows

    def _whole(self, name: str, table: Table) -> pa.RecordBatchReader:
        index = self._context.index
        return {
            "history": index.history.rows,
            "transactions": index.history.transactions,
            "repairs": index.repairs.rows,
            "skipped": index.repairs.skipped_rows,
            "tags": index.version_holds.rows,
        }[name](table)

    def _rows(
        self, name: str, table: Table, predicate: Predicate | None, columns: Sequence[str] | None,
        numbers: NumberPredicate | None, *, waiting: bool,
    ) -> pa.RecordBatchReader:  # fmt: skip
        index = self._context.index
        if name == "partition_history":
            return index.partition_history.rows(table, predicate, columns)
        if columns is not None and not columns:
            return index.metadata_groups.count(table, name, predicate, numbers, waiting=waiting)
        if name == "files":
            return index.metadata_rows.files(table, predicate, columns, numbers)
        return index.metadata_rows.partitions(table, predicate, columns, numbers, waiting=waiting)

    def groups(
        self, table_id: int, metadata_table: str, condition: Predicate | None, keys: Sequence[str] | None,
        aggregates: Sequence[Aggregate], numbers: Predicate | None = None, version: int | None = None,
    ) -> pa.RecordBatchReader:  # fmt: skip
        """Aggregate the rows of ``partitions`` or ``files`` at a version (``metadata_groups.groups_schema``).

        The rows of a group have equal values of the partition columns ``keys``; None: each partition is a group.
        Several groups may have equal values. The predicates are those of ``read``.

        Raises:
            InvalidInputError: There is no such metadata table, or an aggregate is not over one of its numeric columns.
            InvalidPredicateError, InvalidValueError: The condition, or a key, does not fit the table's partition
                columns.
        """
        if metadata_table not in _AT_VERSION:
            raise InvalidInputError(
                f"Groups are of the metadata tables {', '.join(_AT_VERSION)}, not {metadata_table[:60]!r}."
            )
        columns = [aggregate.column for aggregate in aggregates if aggregate.column is not None]
        _require(metadata_table, columns, sorted(AGGREGATED[metadata_table]), "column of numbers")
        table = self._at(table_id, version)
        chosen = None if keys is None else [key_named(table, key) for key in keys]
        bound, only = bound_to(table, condition), _numbers(metadata_table, numbers)
        found = self._context.index.metadata_groups.groups(
            table, metadata_table, bound, chosen, aggregates, only, waiting=version is None
        )
        return declared_batches(table, found)

    def _at(self, table_id: int, version: int | None) -> Table:
        index = self._context.index
        newest = index.tables.load_by_id(table_id)
        return newest if version is None else index.definition_history.at(newest, version)


def _numbers(name: str, predicate: Predicate | None) -> NumberPredicate | None:
    if predicate is None:
        return None
    _require(name, list(columns_of(predicate)), sorted(AGGREGATED.get(name, ())), "column of numbers")
    return NumberPredicate(name, predicate)


def _require(name: str, columns: Sequence[str], known_columns: Sequence[str], column_kind: str) -> None:
    unknown_columns = [column for column in columns if column not in known_columns]
    if unknown_columns:
        raise InvalidInputError(
            f"The metadata table '{name}' has no {column_kind} {unknown_columns[0][:60]!r}. There are: "
            f"{', '.join(known_columns)}."
        )
