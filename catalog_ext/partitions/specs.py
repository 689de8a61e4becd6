"""Checks partition specs, which give values by key names, and makes directory names of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionSpecError
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, format_partition_name
from catalog_ext.metastore.model.values import cast_text, value_text
from catalog_ext.metastore.storage.locations import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key

MAX_COMPONENT_BYTES = 255
"""The longest name of a directory that local file systems and HDFS take."""


def partition_name(table: Table, spec: Mapping[str, str | None]) -> str:
    """Return the directory's name of a full spec, as a write would make it.

    Raises:
        InvalidPartitionSpecError: A key is missing, unknown or there twice, or a value is empty.
        InvalidValueError: A value does not fit its column's type.
        InvalidPartitionNameError: A value is too long.
    """
    given = _by_key(table, spec)
    missing = [key.name for key in table.definition.keys if key.name not in given]
    if missing:
        raise _error(
            table, f"does not say the value of {_listed(missing)}; this statement needs every partition column"
        )
    keys = table.definition.keys
    name = format_partition_name([key.name for key in keys], [_text(table, key, given[key.name]) for key in keys])
    for component in name.split("/"):
        if len(component.encode()) > MAX_COMPONENT_BYTES and not table.definition.location.startswith("s3a:"):
            raise _error(
                table, f"has a value whose directory's name {shown(component)} is longer than the "
                f"{MAX_COMPONENT_BYTES} bytes that its store allows",
            )  # fmt: skip
    return name


def spec_condition(table: Table, spec: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the contract's JSON predicate that a partition has the values of a spec, which may leave keys out.

    Raises:
        InvalidPartitionSpecError: A key is unknown or there twice, a value is empty, or there is no key.
        InvalidValueError: A value does not fit its column's type.
    """
    given = _by_key(table, spec)
    if not given:
        raise _error(table, "names no partition column")
    keys = {key.name: key for key in table.definition.keys}
    texts = {name: _text(table, keys[name], text) for name, text in given.items()}
    leaves = [
        {"op": "is_null", "column": name} if text is None else {"op": "=", "column": name, "value": text}
        for name, text in texts.items()
    ]
    return {"op": "and", "args": leaves}


def require_partitioned(table: Table) -> None:
    """Return if the table has partition columns.

    Raises:
        InvalidPartitionSpecError: It has none.
    """
    if not table.definition.keys:
        raise InvalidPartitionSpecError(
            f"Table {table.identifier} has no partition columns, so that it has no partitions to add, drop or change.",
            {"table": str(table.identifier)},
        )


def _by_key(table: Table, spec: Mapping[str, str | None]) -> dict[str, str | None]:
    require_partitioned(table)
    known = {key.name.lower(): key.name for key in table.definition.keys}
    given: dict[str, str | None] = {}
    for name, text in spec.items():
        key = known.get(name.lower())
        if key is None:
            raise _error(
                table, f"names {shown(name)}, which is no partition column; they are {_listed(known.values())}"
            )
        if key in given:
            raise _error(table, f"names the partition column {key} twice")
        given[key] = text
    return given


def _text(table: Table, key: Key, text: str | None) -> str | None:
    """Return the canonical text of a value; None is NULL."""
    if text is None or text == DEFAULT_PARTITION:
        return None
    if text == "":
        raise _error(table, f"gives {key.name} the value '', which no directory can have; write NULL for no value")
    try:
        value = cast_text(text, key.type)
    except InvalidInputError as error:
        raise error.about(f"Partition column {key.name} of table {table.identifier}", {"column": key.name}) from error
    return None if value is None else value_text(value, key.type)


def _error(table: Table, what: str) -> InvalidPartitionSpecError:
    return InvalidPartitionSpecError(
        f"The partition spec for table {table.identifier} {what}.", {"table": str(table.identifier)}
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
