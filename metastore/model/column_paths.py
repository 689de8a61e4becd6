"""Finds columns, and fields inside of them, by paths of names: ``a``, ``a.b``, ``list.element.b``, ``map.value``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import ColumnNotFoundError
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import DataType, Field
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Item: TypeAlias = Column | Field
"""A column of a table, or a field of a struct."""

_PARTS = {"array": ("element",), "map": ("key", "value")}

OnLevel: TypeAlias = "Callable[[Sequence[Item], int | None], list[Item]]"
"""Gives the items of one level anew; the number of the item that the path's last name is, or None if there is none."""


def find(items: Sequence[Item], name: str) -> int | None:
    """Return the number of the item of this name, without regard to case."""
    lower = name.lower()
    return next((i for i, item in enumerate(items) if item.name.lower() == lower), None)


def at_path(items: Sequence[Item], path: Sequence[str], work: OnLevel, table: str) -> list[Item]:
    """Return the items, with ``work`` done on the level where the path ends.

    Raises:
        ColumnNotFoundError: A name of the path is not there; ``work`` decides about the last one.
    """
    at = find(items, path[0])
    if len(path) == 1:
        return work(items, at)
    if at is None:
        raise not_found(path[0], table, [each.name for each in items])
    item = items[at]
    changed = _in_type(item.data_type, path[1:], work, table)
    new = replace(item, type=str(changed)) if isinstance(item, Column) else replace(item, type=changed)
    return [*items[:at], new, *items[at + 1 :]]


def _in_type(data_type: DataType, path: Sequence[str], work: OnLevel, table: str) -> DataType:
    if data_type.name == "struct":
        fields = at_path(data_type.fields, path, work, table)
        return replace(data_type, fields=tuple(f for f in fields if isinstance(f, Field)))
    parts = _PARTS.get(data_type.name, ())
    if path[0].lower() not in parts:
        raise not_found(path[0], table, parts)
    at = parts.index(path[0].lower())
    children = list(data_type.children)
    if len(path) > 1:
        children[at] = _in_type(children[at], path[1:], work, table)
    else:
        # An element is no field, but changes as one: its type can.
        parts_as_fields = tuple(Field(part, child) for part, child in zip(parts, children, strict=True))
        children = [f.data_type for f in work(parts_as_fields, at)]
    return replace(data_type, children=tuple(children))


def not_found(name: str, table: str, names: Iterable[str], *, shown: str | None = None) -> ColumnNotFoundError:
    """Return the error of a column or field that is not there, which asks for the one that is near.

    Args:
        name: Its own name, or that of the first part of its path that is not there.
        table: The table.
        names: What there is in its place.
        shown: How it is called in the message.
    """
    question = did_you_mean(name, names).strip()
    message = f"Table {table} has no column or field {shown or name!r}."
    return ColumnNotFoundError(f"{message} {question}".strip(), {"table": table, "column": shown or name})
