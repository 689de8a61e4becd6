"""Compares the types in a file with a table's, node by node: structs by the names of their fields, others by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.model.types import DataType

LEAF = "leaf"
NESTED = frozenset({"struct", "array", "map"})

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class FileType(Generic[L]):
    """A type in a file.

    Attributes:
        kind: ``struct``, ``array``, ``map`` or ``leaf``.
        fields: Names and types of a struct's fields, of an array's element, of a map's key and value.
        leaf: What the format says of a leaf.
    """

    kind: str
    fields: tuple[tuple[str, FileType[L]], ...] = ()
    leaf: L | None = None


def reader_name(wanted: DataType) -> str:
    """Return the name of a type, which is one for all intervals of days and smaller units, and one for all others."""
    if not wanted.name.startswith("interval"):
        return wanted.name
    return "interval month" if wanted.name.endswith(("year", "month")) else "interval day"


def array_of(element: FileType[L]) -> FileType[L]:
    """The type of an array."""
    return FileType("array", (("element", element),))


def map_of(key: FileType[L], value: FileType[L]) -> FileType[L]:
    """The type of a map."""
    return FileType("map", (("key", key), ("value", value)))


@dataclass(frozen=True, slots=True)
class TypeComparison(Generic[L]):
    """The rules of a reader.

    Attributes:
        obstacle: Returns why the reader does not read a leaf as a type without children, in words.
        has_rows: Whether the reader comes to leaves at all.
        names_once: Whether it refuses a struct that has a wanted field twice, in two cases.
    """

    obstacle: Callable[[L, DataType], str | None]
    has_rows: bool = True
    names_once: bool = True

    def mismatch(self, found: FileType[L], wanted: DataType, path: str = "") -> str | None:
        """Return the first part that the reader cannot read, with the reason; None if it can read all.

        Args:
            found: The type in the file.
            wanted: The table's.
            path: Of the part in the file, for the reason; empty for the root.
        """
        if found.kind == LEAF and wanted.name in NESTED:
            # Spark looks for the parts of the file's type only where the wanted parts have parts.
            has_parts = wanted.name == "struct" or any(child.name in NESTED for child in wanted.children)
            return _other_kind(found, wanted, path) if self.has_rows or has_parts else None
        if found.kind == LEAF:
            assert found.leaf is not None, "a leaf says what it is"
            reason = self.obstacle(found.leaf, wanted) if self.has_rows else None
            return reason and f"its column {path!r} {reason}"
        if found.kind != wanted.name:
            return _other_kind(found, wanted, path)
        reasons = self._fields(found, wanted, path) if found.kind == "struct" else self._parts(found, wanted, path)
        return next((reason for reason in reasons if reason is not None), None)

    def _fields(self, found: FileType[L], wanted: DataType, path: str) -> Iterator[str | None]:
        there: dict[str, list[tuple[str, FileType[L]]]] = {}
        for name, child in found.fields:
            there.setdefault(name.lower(), []).append((name, child))
        for field in wanted.fields:
            matching = there.get(field.name.lower(), [])
            if self.names_once and len(matching) > 1:
                names = ", ".join(repr(_below(path, name)) for name, _ in matching)
                yield f"it has the columns {names}, between which Spark cannot choose"
            elif matching:
                # Where a reader takes one of several, it is the last.
                name, child = matching[-1]
                yield self.mismatch(child, field.type, _below(path, name))

    def _parts(self, found: FileType[L], wanted: DataType, path: str) -> Iterator[str | None]:
        for (name, child), part in zip(found.fields, wanted.children, strict=True):
            yield self.mismatch(child, part, _below(path, name))


def _other_kind(found: FileType[L], wanted: DataType, path: str) -> str:
    shown = "a single value" if found.kind == LEAF else f"{'an' if found.kind == 'array' else 'a'} {found.kind.upper()}"
    return f"its column {path!r} is {shown}, which Spark does not read as the table's {str(wanted).upper()}"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
