"""Whether a partition's own storage descriptor says what its table's does: partitions are read by their table's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.formats import FormatFinding, hive_format
from catalog_ext.metastore.hive.mapping.hive_types import spark_type
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.widening import widening_problem

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable, Storage
    from catalog_ext.metastore.model.tables import Column


class Descriptors:
    """Compares the descriptors of a table's partitions with the table's; what was found of one is known of its like.

    Args:
        table: The metastore's table.
        data_format: Its format here.
    """

    def __init__(self, table: HiveTable, data_format: str) -> None:
        self._table = table
        self._format = data_format
        self._own = _finding(table, table.storage)
        self._storages: list[tuple[Storage, str | None]] = [(table.storage, _skew(table.storage))]
        self._columns: dict[tuple[Column, ...], str | None] = {(): None, table.columns: None}

    def problem(self, partition: HivePartition) -> str | None:
        """Return why the partition would not be read rightly by its table's descriptor; None where it would."""
        if partition.columns not in self._columns:
            self._columns[partition.columns] = self._columns_problem(partition.columns)
        of_storage = None if partition.storage is None else self._storage_problem(partition.storage)
        return of_storage or self._columns[partition.columns]

    def _storage_problem(self, storage: Storage) -> str | None:
        for known, problem in self._storages:
            if known == storage:
                return problem
        found = _skew(storage) or self._format_problem(storage)
        # Most differ from the table's in nothing that matters; a table whose partitions all differ is not remembered.
        self._storages = [*self._storages[:20], (storage, found)]
        return found

    def _format_problem(self, storage: Storage) -> str | None:
        own, found = self._own, _finding(self._table, storage)
        classes = (storage.serde, storage.input_format)
        if found is None:
            same = own is None and classes == (self._table.storage.serde, self._table.storage.input_format)
            return None if same else f"its storage is {classes[0] or 'none'} over {classes[1] or 'none'}"
        if own is None or found.format != own.format:
            return f"its format is {found.format}, and the table's is {self._format}"
        for name in sorted({*found.options, *own.options}):
            if found.options.get(name) != own.options.get(name):
                here, there = found.options.get(name), own.options.get(name)
                return f"its option {name} is {here!r}, and the table's is {there!r}"
        return None

    def _columns_problem(self, columns: tuple[Column, ...]) -> str | None:
        """Return where columns differ at their positions: that is how Hive brings a partition's and a table's together.

        A partition that lacks the last columns has NULL there for both.
        """
        for position, (ours, tables) in enumerate(zip(columns, self._table.columns, strict=False), 1):
            if ours.name.lower() != tables.name.lower():
                return f"its column {position} is {ours.name!r}, and the table's is {tables.name!r}"
            if ours.type.lower() != tables.type.lower() and (problem := self._type_problem(ours, tables)):
                types = f"{ours.type.upper()}, and {tables.type.upper()} in the table"
                return f"its column {ours.name!r} is {types}: {problem}"
        return None

    def _type_problem(self, ours: Column, tables: Column) -> str | None:
        name = str(self._table)
        try:
            old, new = (parse_type(spark_type(c.type, c.name, name)) for c in (ours, tables))
        except UnsupportedFormatError as error:
            return error.message
        return widening_problem(self._format, old, new)


def _finding(table: HiveTable, storage: Storage) -> FormatFinding | None:
    try:
        return hive_format(replace(table, storage=storage))
    except UnsupportedFormatError:
        return None


def _skew(storage: Storage) -> str | None:
    if not storage.skewed_directories:
        return None
    columns = ", ".join(storage.skewed_columns)
    return f"rows lie in directories of their own by values of {columns} (SKEWED BY … STORED AS DIRECTORIES)"
