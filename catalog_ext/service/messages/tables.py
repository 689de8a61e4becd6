"""The JSON of tables: changes of ``tables/alter``, answers of ``tables/changes``, metadata tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.hive.mapping.clauses import hive_clauses
from catalog_ext.metastore.index.read.history import Removals
from catalog_ext.metastore.model.alterations import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    ColumnChange,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
)
from catalog_ext.metastore.model.as_of import AsOf
from catalog_ext.metastore.model.json import columns_to_list
from catalog_ext.writes.metadata_tables import NAMES, describe_metadata_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.service.messages.core import Request


def column_changes(request: Request) -> list[ColumnChange]:
    """Return the column changes in the field ``changes``."""
    return request.objects("changes", _change)


def as_of_of(request: Request) -> AsOf | None:
    """Return the version that a client of ``tables/load`` names by its number, a time or a tag; None for the newest."""
    version, timestamp_ms = request.optional_count("version"), request.optional_integer("timestamp_ms")
    tag = request.optional_text("tag")
    given = [each for each in (version, timestamp_ms, tag) if each is not None]
    if len(given) > 1:
        raise InvalidInputError("A request has one of 'version', 'timestamp_ms' and 'tag', not several.")
    return AsOf(version, timestamp_ms, tag) if given else None


def removals_of(request: Request) -> Removals:
    """Return how a stream treats versions that removed files, from the field ``removals`` of ``tables/changes``."""
    text = request.optional_text("removals") or Removals.IGNORE
    if text not in list(Removals):
        raise InvalidInputError(
            f"The field 'removals' of the request cannot be {text[:40]!r}. Use one of: {', '.join(Removals)}."
        )
    return Removals(text)


def metadata_json(table: Table, name: str) -> dict[str, Any]:
    """Return the description of a metadata table for ``tables/load``, and the names of all metadata tables."""
    found = describe_metadata_table(table, name)
    described = None if found is None else {
        "columns": columns_to_list(found.columns),
        "values": found.values,
        "locations": list(found.locations),
        "file_paths": list(found.file_paths),
        "predicate": found.takes_condition,
        "numbers": list(found.numbers),
    }  # fmt: skip
    return {"metadata": described, "metadata_tables": list(NAMES)}


def descriptors_json(found: Mapping[int, PartitionDescriptor]) -> dict[str, Any]:
    """Return Hive's per-partition descriptors for ``tables/load``; empty if all partitions have the table's format."""
    items = [
        {"number": number, "format": d.format, "options": dict(d.options), "columns": columns_to_list(d.columns)}
        for number, d in found.items()
    ]
    return {"descriptors": items} if items else {}


def hive_clauses_json(table: Table) -> dict[str, Any]:
    """Return Hive's CREATE TABLE clauses for a table of this format.

    Raises:
        OperationNotSupportedError: Hive has no clauses for this format.
    """
    clauses, settings = hive_clauses(str(table.identifier), table.definition.format, table.definition.options)
    return {"serde": clauses.serde, "serde_properties": settings, "stored_as": clauses.stored_as}


def _change(item: Request) -> ColumnChange:
    kind, path = item.text("change"), tuple(item.texts("path"))
    if kind not in _READERS or not path:
        raise InvalidInputError(
            f"The change {kind[:40]!r} of the request is unknown, or has no path. Known are: {', '.join(_READERS)}."
        )
    return _READERS[kind](item, path)


def _add(item: Request, path: tuple[str, ...]) -> ColumnChange:
    return AddColumn(
        path, item.text("type"), item.flag("nullable", default=True), item.optional_text("comment"),
        item.optional_text("default"), item.optional_text("existing_default"), _position(item),
    )  # fmt: skip


def _move(item: Request, path: tuple[str, ...]) -> ColumnChange:
    position = _position(item)
    if position is None:
        raise InvalidInputError("The change 'move' of the request needs a position: 'first' or 'after'.")
    return MoveColumn(path, position)


def _position(item: Request) -> Position | None:
    first, after = item.flag("first"), item.optional_text("after")
    return Position(after) if first or after is not None else None


_READERS: dict[str, Callable[[Request, tuple[str, ...]], ColumnChange]] = {
    "add": _add,
    "rename": lambda item, path: RenameColumn(path, item.text("name")),
    "drop": lambda item, path: DropColumn(path, item.flag("if_exists")),
    "type": lambda item, path: ChangeType(path, item.text("type")),
    "nullable": lambda item, path: ChangeNullability(path, item.flag("nullable")),
    "comment": lambda item, path: ChangeComment(path, item.optional_text("comment")),
    "default": lambda item, path: ChangeDefault(path, item.optional_text("default")),
    "move": _move,
}
