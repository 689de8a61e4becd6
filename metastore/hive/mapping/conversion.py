"""Converts tables, namespaces and partitions between the index's definitions and the metastore's objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError, MetastoreRefusedError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.formats import (
    hive_format,
    reader_options,
    storage_of,
    table_parameters,
    unreadable_option,
    unreadable_table,
    unreadable_type,
)
from catalog_ext.metastore.hive.mapping.hive_text import FOOTER_PARAMETER, HEADER_PARAMETER, OPEN_CSV, is_hive_text
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type, hive_type, spark_type
from catalog_ext.metastore.hive.mapping.locations import child_location, relative_name
from catalog_ext.metastore.hive.mapping.model import (
    EXTERNAL_TABLE,
    MANAGED_TABLE,
    MATERIALIZED_VIEW,
    VIRTUAL_VIEW,
    HiveDatabase,
    HivePartition,
    HiveStorage,
    HiveTable,
)
from catalog_ext.metastore.hive.mapping.spark_schema import (
    FROM_SERDE,
    PROVIDER,
    SPARK_BUCKET_COLUMN,
    SPARK_BUCKETS,
    is_schema_parameter,
    keeps_columns_from_hive,
    read_schema,
    schema_parameters,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import (
    DEFAULT_PARTITION,
    MAX_VALUE_LENGTH,
    format_partition_name,
    parse_partition_name,
)
from catalog_ext.metastore.model.tables import (
    BUCKETED_BY_PROPERTY,
    FORMATS,
    Column,
    Namespace,
    TableDefinition,
    TableType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_COLUMN_COMMENT = 256
_KEPT_BY_METASTORE = frozenset({
    "EXTERNAL", "comment", "transient_lastDdlTime", "last_modified_by", "last_modified_time", "numFiles", "totalSize",
    "numRows", "rawDataSize", "numFilesErasureCoded", "COLUMN_STATS_ACCURATE", "bucketing_version", HEADER_PARAMETER,
    FOOTER_PARAMETER, BUCKETED_BY_PROPERTY,
})  # fmt: skip
"""Parameters that the metastore or this conversion sets. They are not properties of the user."""


def unrepresentable_reason(definition: TableDefinition) -> str | None:
    """Return the reason why Hive engines could not read the table correctly; None if they can.

    A table with such a reason is registered in the index only, and is not published to the metastore.
    """
    if definition.has_wildcards:
        return "its location has wildcards, and Hive reads one directory for each partition, and all of it"
    is_view = definition.table_type is TableType.VIEW
    keys = {c.name.lower() for c in definition.partition_columns}
    seen: set[str] = set()
    for column in definition.columns:
        lower = column.name.lower()
        if lower in keys:
            continue
        if lower in seen:
            return f"the columns {column.name!r} differ in case only, which Hive does not distinguish"
        seen.add(lower)
        if hive_type(column.data_type) is None:
            return f"Hive has no type for column {column.name!r} {column.type.upper()}"
        problem = None if is_view else unreadable_type(definition.format, column.data_type)
        if problem:
            return f"Hive cannot read column {column.name!r}: {problem}"
    if not seen:
        return "a table in the metastore needs at least one column besides its keys"
    if is_view:
        return None
    option = unreadable_option(definition.format, definition.options)
    return f"Hive cannot read {definition.format} with {option}" if option else None


def to_hive(definition: TableDefinition) -> HiveTable:
    """Return the table as the metastore stores it: Hive's columns and storage classes, Spark's schema as parameters.

    A data column with the name of a partition column is left out: Hive shows the value from the path under that name.

    Raises:
        MetastoreRefusedError: The metastore cannot hold the table (``unrepresentable_reason``).
    """
    reason = unrepresentable_reason(definition)
    if reason is not None:
        raise MetastoreRefusedError(
            f"The table {definition.identifier} cannot be kept in the Hive Metastore: {reason}. "
            "catalog-ext still reads and writes it through the index.",
            {"table": str(definition.identifier)},
        )
    keys = {c.name.lower() for c in definition.partition_columns}
    columns = tuple(c for c in definition.columns if c.name.lower() not in keys)
    external = definition.table_type is TableType.EXTERNAL
    parameters = (
        # Leave the bucketing property out: this catalog creates no bucketed tables, and reads bucketing from Hive's
        # storage descriptor.
        {k: v for k, v in definition.properties.items() if k != BUCKETED_BY_PROPERTY}
        | ({"EXTERNAL": "TRUE"} if external else {})
        | ({} if definition.comment is None else {"comment": definition.comment})
        | table_parameters(definition.format, definition.options)
        | _schema_parameters(definition, columns)
    )
    return HiveTable(
        database=definition.identifier.namespace,
        name=definition.identifier.name,
        table_type=EXTERNAL_TABLE if external else MANAGED_TABLE,
        location=definition.location,
        columns=tuple(hive_column(c, hive_type(c.data_type) or "") for c in columns),
        partition_columns=tuple(hive_column(c, hive_key_type(c.data_type)) for c in definition.partition_columns),
        storage=storage_of(definition.format, definition.options, definition.location),
        parameters=parameters,
        owner=definition.owner,
    )


def _schema_parameters(definition: TableDefinition, columns: Sequence[Column]) -> dict[str, str]:
    """Return Spark's schema as parameters.

    A table that a Hive SerDe reads gets no provider, so that Spark, too, reads it through the SerDe.
    """
    parameters = schema_parameters(definition.format, columns, definition.partition_columns)
    if is_hive_text(definition.format, definition.options):
        del parameters[PROVIDER]
    return parameters


def as_read(storage: HiveStorage, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns with the types that Hive reads: ``OpenCSVSerde`` reads STRING whatever type is declared."""
    return tuple(replace(c, type="string") for c in columns) if storage.serde == OPEN_CSV else columns


def column_key(column: Column) -> tuple[str, str, str]:
    """Return a key that is equal for columns that the metastore does not distinguish; the key keeps the case of names.

    Hive itself writes a comment to columns that it gets from a SerDe; the key ignores that comment.
    """
    comment = "" if column.comment == FROM_SERDE else column.comment or ""
    return column.name, column.type.lower(), comment[:_MAX_COLUMN_COMMENT]


def columns_of(table: HiveTable) -> tuple[Column, ...]:
    """Return the columns of the metastore's table in Hive's types, including columns that exist only in Spark's schema.

    Raises:
        UnsupportedFormatError: Spark's schema cannot be read.
    """
    spark = read_schema(table.parameters, str(table))
    if spark is None or not keeps_columns_from_hive(table.parameters.get(PROVIDER, "hive").lower(), table.columns):
        return as_read(table.storage, table.columns)
    return tuple(hive_column(c, hive_type(c.data_type) or c.type) for c in spark[0])


def hive_column(column: Column, type_text: str) -> Column:
    """Return the column as the metastore stores it."""
    comment = None if column.comment is None else column.comment[:_MAX_COLUMN_COMMENT]
    return Column(column.name.lower(), type_text, comment=comment)


def from_hive(table: HiveTable) -> TableDefinition:
    """Return the definition of the metastore's table; its location and parameters are unchanged.

    Names and types come from Spark's schema among the parameters if there is one, otherwise from Hive's columns.

    Raises:
        UnsupportedFormatError: The table is a view or an ACID table, or has an unsupported format or column type.
    """
    _refuse_what_is_no_plain_table(table)
    provider = table.parameters.get(PROVIDER, "hive").lower()
    if provider == "hive":
        found = hive_format(table)
        data_format, options = found.format, found.options
        reason = unreadable_table(table, data_format)
        if reason is not None:
            raise _not_imported(table, reason)
    elif provider in FORMATS:
        data_format, options = provider, reader_options(table.storage.serde_parameters)
    else:
        raise _not_imported(table, f"its Spark provider is {provider!r}, and {', '.join(FORMATS)} are supported")
    columns, keys = _columns(table, trust_spark=provider != "hive")
    return TableDefinition(
        identifier=TableIdentifier(table.database, table.name),
        table_type=TableType.MANAGED if table.table_type == MANAGED_TABLE else TableType.EXTERNAL, format=data_format,
        location=table.location, columns=columns, partition_columns=keys, options=options,
        properties=user_parameters(table.parameters) | _bucketing(table), comment=table.comment, owner=table.owner,
    )  # fmt: skip


def bucketed_by(table: HiveTable) -> str | None:
    """Return a text on the bucketing of the metastore's table, by Hive or by Spark; None without bucketing."""
    columns, buckets = list(table.storage.bucket_columns), table.storage.bucket_count
    if not columns and table.parameters.get(SPARK_BUCKETS, "").isdecimal():
        # Spark does not declare buckets of its own tables to Hive, because Hive's hash differs. Read them from the
        # parameters.
        buckets, prefix = int(table.parameters[SPARK_BUCKETS]), SPARK_BUCKET_COLUMN
        named = {int(k[len(prefix) :]): v for k, v in table.parameters.items() if k.startswith(prefix)}
        columns = [named[number] for number in sorted(named)]
    if not columns or buckets < 1:
        return None
    return f"{', '.join(columns)} into {buckets} bucket{'' if buckets == 1 else 's'}"


def _bucketing(table: HiveTable) -> dict[str, str]:
    words = bucketed_by(table)
    return {} if words is None else {BUCKETED_BY_PROPERTY: words}


def user_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the user's parameters, without parameters that the metastore sets and without Spark's schema."""
    return {k: v for k, v in parameters.items() if k not in _KEPT_BY_METASTORE and not is_schema_parameter(k)}


def _refuse_what_is_no_plain_table(table: HiveTable) -> None:
    if table.table_type in (VIRTUAL_VIEW, MATERIALIZED_VIEW):
        raise _not_imported(table, "it is a view")
    if table.parameters.get("transactional", "").lower() == "true":
        raise _not_imported(
            table,
            "it is a transactional (ACID) table of Hive, whose files cannot be read without its log of transactions",
        )
    if table.parameters.get("table_type", "").upper() == "ICEBERG":
        raise _not_imported(table, "it is an Iceberg table")
    if "storage_handler" in table.parameters:
        raise _not_imported(table, f"its rows come from the storage handler {table.parameters['storage_handler']}")
    if table.storage.skewed_directories:
        columns = ", ".join(table.storage.skewed_columns)
        raise _not_imported(
            table, f"rows lie in directories of their own by values of {columns} (SKEWED BY … STORED AS DIRECTORIES)"
        )
    if not table.location:
        raise _not_imported(table, "it has no location")


def _columns(table: HiveTable, *, trust_spark: bool) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    spark = read_schema(table.parameters, str(table))
    read = as_read(table.storage, table.columns)
    hive = tuple(_spark_columns(table, c) for c in (read, table.partition_columns))
    if spark is None:
        return hive[0], hive[1]
    # A Hive engine may have altered its own table after Spark stored a schema. If the two differ, use Hive's columns.
    same = all(_same_columns(s, h) for s, h in zip(spark, hive, strict=True))
    return spark if trust_spark or same else (hive[0], hive[1])


def _spark_columns(table: HiveTable, columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(Column(c.name, spark_type(c.type, c.name, str(table)), comment=c.comment) for c in columns)


def _same_columns(spark: Sequence[Column], hive: Sequence[Column]) -> bool:
    wanted = [(c.name.lower(), hive_type(c.data_type)) for c in spark]
    return wanted == [(c.name, hive_type(c.data_type)) for c in hive]


def _not_imported(table: HiveTable, why: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"The metastore's table {table} cannot be imported: {why}.",
        {"table": str(table), "table_type": table.table_type},
    )


def to_hive_database(namespace: Namespace) -> HiveDatabase:
    """Return the namespace as the metastore stores it."""
    return HiveDatabase(namespace.name, namespace.location, namespace.comment, dict(namespace.properties))


def from_hive_database(database: HiveDatabase) -> Namespace:
    """Return the namespace that the metastore holds."""
    return Namespace(database.name, database.location, database.comment, dict(database.parameters))


def to_hive_partition(table: HiveTable, name: str, location: str | None = None) -> HivePartition:
    """Return the partition as the metastore stores it.

    Args:
        table: The metastore's table.
        name: The directory string, relative to the table's location.
        location: Absolute URI; None: below the table's location.

    Raises:
        InvalidPartitionNameError: The metastore cannot hold the partition: its keys are not the table's, or a value is
            empty or too long.
    """
    return HivePartition(partition_values_of(table, name), location or child_location(table.location, name))


def hive_partition_name(table: HiveTable, name: str) -> str:
    """Return the metastore's name of a partition from its directory string: keys in lower case, values escaped again.

    Raises:
        InvalidPartitionNameError: The metastore cannot hold the partition (see ``to_hive_partition``).
    """
    return table.name_of(partition_values_of(table, name))


def partition_values_of(table: HiveTable, name: str) -> tuple[str, ...]:
    """Return the values of a partition as the metastore stores them: unescaped, NULL as the default partition's name.

    Raises:
        InvalidPartitionNameError: The metastore cannot hold the partition (see ``to_hive_partition``).
    """
    pairs = parse_partition_name(name)
    keys = [c.name for c in table.partition_columns]
    problem = None
    if [key.lower() for key, _ in pairs] != keys:
        problem = f"its keys are not those of the table ({', '.join(keys) or 'none'})"
    elif any(value == "" for _, value in pairs):
        problem = "an empty value is NULL there"
    elif any(len(value or "") > MAX_VALUE_LENGTH for _, value in pairs):
        problem = f"a value has more than {MAX_VALUE_LENGTH} characters"
    if problem:
        raise InvalidPartitionNameError(
            f"The metastore's table {table} cannot hold the partition {name[:200]!r}: {problem}.",
            {"table": str(table), "partition": name[:200]},
        )
    return tuple(DEFAULT_PARTITION if value is None else value for _, value in pairs)


def from_hive_partition(table: HiveTable, partition: HivePartition) -> tuple[str, str | None]:
    """Return the directory string of the metastore's partition, and its location; None for the default location."""
    below = relative_name(table.location, partition.location)
    if below is not None and values_or_none(table, below) == partition.values:
        return below, None
    keys = [column.name for column in table.partition_columns]
    return format_partition_name(keys, values_of_hive(partition)), partition.location


def values_or_none(table: HiveTable, name: str) -> tuple[str, ...] | None:
    """Return the values of a partition as the metastore stores them; None if it cannot hold the partition."""
    try:
        return partition_values_of(table, name)
    except InvalidPartitionNameError:
        return None


def values_of_hive(partition: HivePartition) -> tuple[str | None, ...]:
    """Return the values of the metastore's partition, with None for NULL."""
    return tuple(None if value == DEFAULT_PARTITION else value for value in partition.values)
