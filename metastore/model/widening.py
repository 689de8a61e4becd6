"""Which changes of a column's type the readers of each format follow, on files that hold the old type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.metastore.model.types import DataType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_AS_TEXT = ("csv", "json", "text")
"""Formats whose values are text, which a STRING column shows as it is written."""


def widening_problem(file_format: str, old: DataType, new: DataType) -> str | None:
    """Return why files that hold ``old`` cannot be read as ``new``; None when they can."""
    if old == new or _widens(old, new):
        return None
    if new.name == "string" and not (old.children or old.fields):
        if old.is_string or file_format in _AS_TEXT:
            return None
        return f"files of the format {file_format} hold numbers, dates and the like in a form that is no text"
    return (
        "only wider types can follow: a longer integer, FLOAT to DOUBLE, a DECIMAL of more digits, a longer VARCHAR, "
        "STRING for CHAR and VARCHAR"
    )


def _widens(old: DataType, new: DataType) -> bool:
    if old.is_integer and new.is_integer:
        return _INTEGERS.index(old.name) <= _INTEGERS.index(new.name)
    if (old.name, new.name) == ("float", "double"):
        return True
    if old.name == new.name == "decimal":
        return new.parameters[1] == old.parameters[1] and new.parameters[0] >= old.parameters[0]
    if old.name in ("char", "varchar") and new.name == "varchar":
        return new.parameters[0] >= old.parameters[0]
    return False
