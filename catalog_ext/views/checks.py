"""Checks what a view must be like, and a specification of its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    ViewOnlyPartitionColumnsError,
    ViewPartitionColumnDuplicateError,
    ViewPartitionColumnNotFoundError,
    ViewPartitionColumnOrderError,
    ViewPartitionColumnsNotLastError,
    ViewPartitionSpecError,
)
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, format_partition_name
from catalog_ext.metastore.model.values import cast_text, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Column
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.model.views import View, ViewQuery


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A view that somebody wants.

    Attributes:
        columns: All of them, in their order.
        partitioned_on: The names of its partition columns.
    """

    identifier: TableIdentifier
    query: ViewQuery
    columns: tuple[Column, ...]
    partitioned_on: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    owner: str = ""


def split_columns(request: ViewRequest) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns and the partition columns, which are the last ones in their order.

    Raises:
        ViewError: They are not.
    """
    where = {"view": str(request.identifier)}
    shown = f"The view {request.identifier} cannot be PARTITIONED ON ({', '.join(request.partitioned_on)})"
    names = [c.name.lower() for c in request.columns]
    wanted = [name.lower() for name in request.partitioned_on]
    for name in wanted:
        if name not in names:
            raise ViewPartitionColumnNotFoundError(
                f"{shown}: its query has no column {name!r}. It has: {', '.join(names)[:300]}.", where
            )
        if wanted.count(name) > 1:
            raise ViewPartitionColumnDuplicateError(f"{shown}: {name!r} is named twice. Name each column once.", where)
    if wanted and len(wanted) == len(names):
        raise ViewOnlyPartitionColumnsError(
            f"{shown}: these are all its columns, and at least one must be none. Leave one out.", where
        )
    last = names[len(names) - len(wanted) :]
    if set(last) != set(wanted):
        raise ViewPartitionColumnsNotLastError(
            f"{shown}: these must be its last columns, which are {', '.join(last)}. Change the order of its columns.",
            where,
        )
    if last != wanted:
        raise ViewPartitionColumnOrderError(
            f"{shown}: its last columns come in another order. Write PARTITIONED ON ({', '.join(last)}).", where
        )
    first = len(names) - len(wanted)
    return request.columns[:first], request.columns[first:]


def bad_spec(view: View, what: str) -> ViewPartitionSpecError:
    """Return the error that says what a statement does wrong with the view's partition columns."""
    keys = ", ".join(c.name for c in view.definition.partition_columns)
    return ViewPartitionSpecError(
        f"The statement {what}; the view {view.identifier} is partitioned on ({keys}).", {"view": str(view.identifier)}
    )


def checked_spec(view: View, spec: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the (maybe partial) specification with the view's spelling of the columns; the default partition is NULL.

    Raises:
        ViewPartitionSpecError: It names another column, or one twice, or has an empty value.
        InvalidValueError: A value does not fit its column's type.
    """
    keys = {key.name.lower(): key for key in view.definition.keys}
    checked: dict[str, str | None] = {}
    for name, value in spec.items():
        key = keys.get(name.lower())
        if key is None:
            raise bad_spec(view, f"names {name[:60]!r}, which is no partition column")
        if key.name in checked:
            raise bad_spec(view, f"names {name[:60]!r} twice")
        checked[key.name] = _text(view, key, value)
    return checked


def _text(view: View, key: Key, value: str | None) -> str | None:
    if value == "":
        raise bad_spec(view, f"gives {key.name!r} the value '', which no partition has (write NULL or another value)")
    if value is None or value == DEFAULT_PARTITION:
        return None
    typed = cast_text(value, key.type)
    return None if typed is None else value_text(typed, key.type)


def partition_name(view: View, spec: Mapping[str, str | None]) -> str:
    """Return the name of the partition that a full specification names.

    Raises:
        ViewPartitionSpecError, InvalidValueError: As ``checked_spec``; also when it is not full.
    """
    checked = checked_spec(view, spec)
    keys = [key.name for key in view.definition.keys]
    missing = [name for name in keys if name not in checked]
    if missing:
        raise bad_spec(view, f"gives no value for {', '.join(missing)}")
    return format_partition_name(keys, [checked[name] for name in keys])
