"""Checks the properties of tables, views and namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.conf.keys import check_properties
from catalog_ext.metastore.commit.partition_commit import OPTIONS, PartitionCommit
from catalog_ext.metastore.errors import AcidTableError, InvalidConfigurationError, OperationNotSupportedError
from catalog_ext.metastore.model.secrets import is_secret
from catalog_ext.metastore.model.tables import LOCATION_WILDCARDS_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from catalog_ext.metastore.model.tables import TableDefinition


def checked_map(values: Mapping[Any, Any], kind: str) -> dict[str, str]:
    """Return a copy of the map, checked to map texts to texts and to contain no secret.

    Raises:
        InvalidConfigurationError: A key or value is not text, or a key names a secret.
    """
    result: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(key, str) and is_secret(key):
            raise InvalidConfigurationError(
                f"The {kind} cannot hold {key[:60]!r}: they are kept in the index, shown by SHOW CREATE TABLE and sent "
                "to the metastore. Give secrets to the catalog: storage={…} of catalog_ext.connect and configure, the "
                "variable CATALOG_EXT_STORAGE, Spark's conf spark.hadoop.fs.s3a.…, or one of AWS's and Hadoop's "
                "credential providers.",
                {"key": key[:60]},
            )
        if not isinstance(value, str):
            raise InvalidConfigurationError(
                f"The {kind} must be text: {str(key)[:60]!r} is {str(value)[:60]}. Write it in quotes."
            )
        result[key] = value
    return result


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties, after checking those that catalog-ext reads.

    Raises:
        InvalidConfigurationError: A value is not text, or invalid for its key; or a key names a secret.
    """
    result = checked_map(properties, "properties")
    check_properties(result)
    return result


def check_not_transactional(table: str, properties: Mapping[str, str]) -> None:
    """Check that the properties do not ask for a transactional (ACID) table of Hive; ``'false'`` is accepted.

    Raises:
        AcidTableError: The properties ask for a transactional table.
    """
    for key, value in properties.items():
        if key.lower() == "transactional" and value.strip().lower() != "false":
            raise AcidTableError(
                f"Table {table} cannot have the property 'transactional' = {value[:40]!r}: catalog-ext does not write "
                "Hive's ACID files, and its own writes are transactions without them. Leave it out or say 'false'.",
                {"table": table, "key": key, "value": value[:40]},
            )


def check_not_bucketed(definition: TableDefinition) -> None:
    """Check that the table is not bucketed.

    Files of this catalog have no buckets, so engines would not find their rows.

    Raises:
        OperationNotSupportedError: The table is bucketed.
    """
    if definition.bucketed_by is not None:
        raise OperationNotSupportedError(
            f"Table {definition.identifier} is bucketed ({definition.bucketed_by}), and is read but not written here: "
            "new files would be in no bucket, and engines that look for rows by their bucket would miss them. Write it "
            "by the engine that has made it and repair it here, or make a table without buckets of it by CREATE TABLE "
            "... AS SELECT.",
            {"table": str(definition.identifier), "bucketed_by": definition.bucketed_by},
        )


def check_one_directory(definition: TableDefinition, command: str) -> None:
    """Check that the table's location has no wildcards: a table of matching files cannot be written.

    Raises:
        OperationNotSupportedError: The location has wildcards.
    """
    if definition.has_wildcards:
        raise OperationNotSupportedError(
            f"{command} is not for table {definition.identifier}: its location {definition.location} has wildcards, so "
            "that it is what they match and is read only. Change the files by what writes them and repair the table "
            "(MSCK REPAIR TABLE ... SYNC PARTITIONS), or register one directory as a table and write to that.",
            {"table": str(definition.identifier), "location": definition.location},
        )


def check_wildcards_unaltered(definition: TableDefinition, changed: Collection[str]) -> None:
    """Check that the property that marks a location with wildcards is not changed.

    Raises:
        InvalidConfigurationError: The property is set or removed.
    """
    if LOCATION_WILDCARDS_PROPERTY in {key.lower() for key in changed}:
        raise InvalidConfigurationError(
            f"The property {LOCATION_WILDCARDS_PROPERTY!r} of table {definition.identifier} goes with its location and "
            "cannot be altered. Register the table anew with another location.",
            {"table": str(definition.identifier), "key": LOCATION_WILDCARDS_PROPERTY},
        )


def check_partition_commit(
    definition: TableDefinition, set_: Mapping[str, str] | None = None, remove: Sequence[str] = ()
) -> None:
    """Check that the table's partition-commit options are consistent with each other and with its keys.

    A change of properties that concerns none of these options is not checked.

    Raises:
        InvalidConfigurationError: The options contradict each other or the table's keys.
    """
    if set_ is not None and {key.lower() for key in (*set_, *remove)}.isdisjoint(OPTIONS):
        return
    kept = {key: text for key, text in definition.properties.items() if key not in remove}
    PartitionCommit.of({**kept, **(set_ or {})}, [column.name for column in definition.partition_columns])
