"""Storage descriptors of the metastore's partitions: comparison with the table's, conversion for the index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import MetastoreRefusedError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.conversion import as_read, to_hive, to_hive_partition
from catalog_ext.metastore.hive.mapping.formats import FormatFinding, hive_format, unreadable_setting
from catalog_ext.metastore.hive.mapping.hive_text import HEADER_PARAMETER, is_hive_text
from catalog_ext.metastore.hive.mapping.hive_types import spark_type
from catalog_ext.metastore.hive.mapping.model import HiveStorage
from catalog_ext.metastore.hive.mapping.spark_schema import PROVIDER
from catalog_ext.metastore.model.conversions import conversion_problem, widening_problem
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.secrets import drop_secrets, is_secret
from catalog_ext.metastore.model.tables import FORMATS, Column
from catalog_ext.metastore.model.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.messages import PublishedPartition
    from catalog_ext.metastore.model.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Reading:
    """The way in which the files of a partition are read.

    Attributes:
        descriptor: The partition's own descriptor; None if the partition is read like its table.
        difference: A text on the difference between partition and table; None if the partition is read like its table.
        problem: The reason why the partition cannot be read; None if it can.
    """

    descriptor: PartitionDescriptor | None = None
    difference: str | None = None
    problem: str | None = None

    def differs_from(self, known: PartitionDescriptor | None, *, is_known: bool = True) -> bool:
        """Return whether the index must change the way in which it reads the partition.

        Args:
            known: The descriptor in the index; None if the index reads it like its table.
            is_known: Whether the index has the partition.
        """
        if is_known and known is None and self.difference == FEWER_COLUMNS:
            # The table got a column after the partition was created. Reading with either set of columns shows equal
            # rows until the files have more columns than the partition, so the index needs no change.
            return False
        return self.descriptor != known


AS_ITS_TABLE = Reading()

FEWER_COLUMNS = "it has fewer columns than its table"
"""The difference of a partition of delimited text with fewer columns than its table; it is read like the table."""


_TYPED = ("parquet", "orc")
"""Formats whose files store the types of values. In text the partition's column type decides how to read ``007``."""


class Descriptors:
    """Compares the descriptors of a table's partitions with the table's; results are cached by descriptor.

    Args:
        table: The metastore's table.
        definition: The index's definition, by which files are read. Hive engines may have altered the metastore's table
            since it was imported.
    """

    def __init__(self, table: HiveTable, definition: TableDefinition) -> None:
        self._own = _own_finding(table, definition)
        storage, table = table.storage, replace(table, columns=_own_columns(table, definition))
        self._table = table
        self._format = definition.format
        self._known: list[tuple[HiveStorage | None, tuple[Column, ...], Reading]] = [
            (storage, table.columns, AS_ITS_TABLE)
        ] if self._own == _finding(table, storage) else []  # fmt: skip

    def reading(self, partition: HivePartition) -> Reading:
        """Return the way in which the partition is read."""
        columns = partition.columns or self._table.columns
        for storage, known, found in self._known:
            if known == columns and storage == partition.storage:
                return found
        found = self._reading(partition.storage, columns)
        # Usually there are only a few different descriptors; a longer list is not cached.
        self._known = [*self._known[:20], (partition.storage, columns, found)]
        return found

    def _reading(self, storage: HiveStorage | None, columns: tuple[Column, ...]) -> Reading:
        problem = None if storage is None else self._unreadable(storage) or self._unreadable_setting(storage)
        if problem:
            return Reading(difference=problem, problem=problem)
        difference = None if storage is None else self._storage_difference(storage)
        difference = difference or self._columns_difference(as_read(storage or self._table.storage, columns))
        if difference is None:
            return AS_ITS_TABLE
        try:
            return Reading(self._own_descriptor(storage or self._table.storage, columns), difference)
        except UnsupportedFormatError as error:
            return Reading(difference=difference, problem=error.message)

    def _unreadable(self, storage: HiveStorage) -> str | None:
        if storage.skewed_directories:
            names = ", ".join(storage.skewed_columns)
            return f"rows lie in directories of their own by values of {names} (SKEWED BY … STORED AS DIRECTORIES)"
        own = self._table.storage
        if (storage.bucket_columns, max(storage.bucket_count, 0)) != (own.bucket_columns, max(own.bucket_count, 0)):
            names = ", ".join(storage.bucket_columns) or "nothing"
            return f"it is bucketed by {names}, which its table is not"
        return None

    def _unreadable_setting(self, storage: HiveStorage) -> str | None:
        """Return a text on a setting that only the partition has, and that would change how its files are read."""
        if storage.serde != self._table.storage.serde:
            return None
        setting = unreadable_setting(self._format, storage.serde_parameters)
        if setting is None or setting == unreadable_setting(self._format, self._table.storage.serde_parameters):
            return None
        return f"its SerDe has {setting}, which is not followed"

    def _storage_difference(self, storage: HiveStorage) -> str | None:
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

    def _columns_difference(self, columns: tuple[Column, ...]) -> str | None:
        """Return a text on the differences of columns by position, by which Hive matches partition and table.

        A partition that lacks the last columns shows NULL for them in Hive and Spark, except in delimited text: there a
        line may have more values than the partition has columns, which Hive does not show.
        """
        table_columns = as_read(self._table.storage, self._table.columns)
        for position, (ours, tables) in enumerate(zip(columns, table_columns, strict=False), 1):
            if ours.name.lower() != tables.name.lower():
                return f"its column {position} is {ours.name!r}, and the table's is {tables.name!r}"
            if ours.type.lower() != tables.type.lower() and (problem := self._type_problem(ours, tables)):
                types = f"{ours.type.upper()}, and {tables.type.upper()} in the table"
                return f"its column {ours.name!r} is {types}: {problem}"
        if self._format == "csv" and len(columns) < len(self._table.columns):
            return FEWER_COLUMNS
        return None

    def _type_problem(self, ours: Column, tables: Column) -> str | None:
        name = str(self._table)
        try:
            old, new = (parse_type(spark_type(c.type, c.name, name)) for c in (ours, tables))
        except UnsupportedFormatError as error:
            return error.message
        if old == new:
            return None
        if self._format not in _TYPED:
            return conversion_problem(old, new) or "Hive reads its text by the former"
        if old.name == "char":
            return conversion_problem(old, new) or "Hive shows its values without the blanks at their end"
        return widening_problem(self._format, old, new)

    def _own_descriptor(self, storage: HiveStorage, columns: tuple[Column, ...]) -> PartitionDescriptor:
        """Return the descriptor by which the partition can be read.

        Raises:
            UnsupportedFormatError: The format is not supported. The message is a clause to follow "of its partition X".
        """
        found = _finding(self._table, storage, columns)
        if found is None:
            raise UnsupportedFormatError(
                f"its storage is {storage.serde or 'none'} over {storage.input_format or 'none'}"
            )
        setting = unreadable_setting(found.format, storage.serde_parameters)
        if setting:
            raise UnsupportedFormatError(f"its SerDe has {setting}, which is not followed")
        if found.format != "csv" and self._table.parameters.get(HEADER_PARAMETER, "0") != "0":
            raise UnsupportedFormatError(
                f"its format is {found.format}, and Hive leaves out rows of it too ({HEADER_PARAMETER} of the table)"
            )
        if not columns:
            raise UnsupportedFormatError("it has no columns")
        read = tuple(self._read_as(i, column) for i, column in enumerate(as_read(storage, columns)))
        # The index stores no secrets: they stay in the metastore.
        options = drop_secrets(found.options)
        hive: dict[str, Any] = {
            "serde": storage.serde,
            "input_format": storage.input_format,
            "output_format": storage.output_format,
            "serde_parameters": storage.settings,
            "columns": [[c.name, c.type, c.comment] for c in columns],
        }
        return PartitionDescriptor(found.format, options, read, hive)

    def _read_as(self, position: int, column: Column) -> Column:
        """Return a column of the partition in Spark's type.

        Raises:
            UnsupportedFormatError: Spark has no such type, or the column cannot be read in it.
        """
        name = str(self._table)
        own = spark_type(column.type, column.name, name)
        if position < len(self._table.columns):
            tables = as_read(self._table.storage, self._table.columns)[position]
            if column.name.lower() != tables.name.lower():
                raise UnsupportedFormatError(
                    f"its column {position + 1} is {column.name!r}, and the table's is {tables.name!r}"
                )
            problem = conversion_problem(parse_type(own), parse_type(spark_type(tables.type, tables.name, name)))
            if problem:
                types = f"{column.type.upper()}, and {tables.type.upper()} in the table"
                raise UnsupportedFormatError(f"its column {column.name!r} is {types}: {problem}")
        return Column(column.name, own)


def _own_finding(table: HiveTable, definition: TableDefinition) -> FormatFinding | None:
    """Return the format of the files of partitions that have no descriptor of their own."""
    found = _finding(table, table.storage)
    if (provider := table.parameters.get(PROVIDER, "hive").lower()) == "hive":
        if found is None or definition.format != "csv":
            return found
        return FormatFinding("csv", _options_of(definition, found))
    # Spark's reader options and Hive's settings have different names. To compare them, translate the options to the
    # settings that this catalog would write.
    written = _written(definition)
    return found if written is None or found is None or provider not in FORMATS else _finding(written, written.storage)


def _options_of(definition: TableDefinition, found: FormatFinding) -> dict[str, str]:
    """Return the reader options of the index's definition, limited to options that a Hive descriptor can express."""
    options = dict(definition.options)
    if is_hive_text("csv", options):
        # Drop other options, such as a compression codec: they affect only writes.
        return {name: text for name, text in options.items() if name in found.options}
    return options


def _own_columns(table: HiveTable, definition: TableDefinition) -> tuple[Column, ...]:
    """Return the columns in Hive's types; for some of Spark's tables the metastore has only a placeholder column."""
    written = _written(definition)
    if written is None or table.parameters.get(PROVIDER, "hive").lower() != "hive":
        return table.columns
    read = as_read(table.storage, table.columns)
    same = [(c.name, c.type) for c in written.columns] == [(c.name.lower(), c.type.lower()) for c in read]
    return table.columns if same else written.columns


def _written(definition: TableDefinition) -> HiveTable | None:
    try:
        return to_hive(definition)
    except MetastoreRefusedError:
        return None


def _finding(table: HiveTable, storage: HiveStorage, columns: tuple[Column, ...] | None = None) -> FormatFinding | None:
    try:
        return hive_format(replace(table, storage=storage, columns=table.columns if columns is None else columns))
    except UnsupportedFormatError:
        return None


def storage_of_descriptor(hive: Mapping[str, Any]) -> HiveStorage:
    """Return the Hive storage that is kept in a partition descriptor (``PartitionDescriptor.hive``)."""
    return HiveStorage(hive["input_format"], hive["output_format"], hive["serde"], dict(hive["serde_parameters"]))


def columns_of_descriptor(hive: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns that are kept in a partition descriptor (``PartitionDescriptor.hive``), in Hive's types."""
    return tuple(Column(name, kind, comment=comment) for name, kind, comment in hive["columns"])


def described_partition(table: HiveTable, wanted: PublishedPartition) -> HivePartition:
    """Return the partition of a message as the metastore stores it, with its statistics and its descriptor.

    Raises:
        InvalidPartitionNameError: The metastore cannot hold the partition (see ``to_hive_partition``).
    """
    descriptor = wanted.descriptor
    partition = replace(to_hive_partition(table, wanted.name, wanted.location), parameters=wanted.parameters)
    if descriptor is None:
        return partition
    if descriptor:
        own = descriptor["hive"]
        return replace(partition, storage=storage_of_descriptor(own), columns=columns_of_descriptor(own))
    settings = {k: v for k, v in table.storage.serde_parameters.items() if k != "path"}
    return replace(partition, storage=replace(table.storage, serde_parameters=settings), columns=table.columns)


def has_descriptor(found: HivePartition, wanted: HivePartition) -> bool:
    """Return whether the metastore's partition has the wanted descriptor; True if ``wanted`` has no descriptor."""
    if wanted.storage is None or found.storage is None:
        return True
    columns = [[(c.name.lower(), c.type.lower()) for c in p.columns] for p in (found, wanted)]
    return columns[0] == columns[1] and _classes(found.storage) == _classes(wanted.storage)


def with_secrets_of(found: HivePartition, wanted: HivePartition) -> HivePartition:
    """Return the wanted partition with the secret settings of the metastore's partition: the index has no secrets."""
    if wanted.storage is None or found.storage is None:
        return wanted
    secrets = {k: v for k, v in found.storage.serde_parameters.items() if is_secret(k)}
    settings = {**secrets, **wanted.storage.serde_parameters}
    return replace(wanted, storage=replace(wanted.storage, serde_parameters=settings))


def _classes(storage: HiveStorage) -> tuple[Any, ...]:
    return (storage.serde, storage.input_format, storage.output_format, storage.settings)
