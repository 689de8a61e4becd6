"""Type conversions of columns: which types can be read as which other types, in Hive and in each file format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.metastore.model.types import DataType


_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The most decimal digits of a value of each integer type."""

_NUMBERS = (*_DIGITS, "float", "double", "decimal")


def conversion_problem(old: DataType, new: DataType) -> str | None:
    """Return why values of the type ``old`` cannot be shown as ``new``; None if Hive and Spark show equal values.

    It is a problem if Hive cuts or rounds a value, or formats it differently from Spark, and if a text is read as a
    number.
    """
    if old == new or _is_followed(old, new):
        return None
    if old.name in _NUMBERS and new.name in _NUMBERS:
        return "Hive would cut or round its values"
    if old.is_string and new.is_string:
        return "Hive would cut its values"
    return "values of the one are not converted into the other"


def _is_followed(old: DataType, new: DataType) -> bool:
    if old.name in _DIGITS:
        return _integer_is_followed(old.name, new)
    if old.name == "float":
        return new.name == "double"
    if old.name == "decimal":
        return new.name == "decimal" and _digits(new) >= _digits(old) and new.parameters[1] >= old.parameters[1]
    if old.name == "date":
        return new.name == "string"
    if old.name in ("char", "varchar"):
        return new.name == "string" or (new.name == "varchar" and new.parameters[0] >= old.parameters[0])
    return False


def _integer_is_followed(old: str, new: DataType) -> bool:
    if new.name in _DIGITS:
        return _DIGITS[new.name] >= _DIGITS[old]
    if new.name == "decimal":
        return _digits(new) >= _DIGITS[old]
    # A FLOAT has 24 bits for digits and a DOUBLE 53: too few for all values of INT and BIGINT, or of BIGINT.
    return new.name in ("string", "double", "float") and (new.name, old) not in {
        ("float", "int"), ("float", "bigint"), ("double", "bigint"),
    }  # fmt: skip


def _digits(decimal: DataType) -> int:
    """Return the number of digits of a DECIMAL before the decimal point."""
    return decimal.parameters[0] - decimal.parameters[1]


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_AS_TEXT = ("csv", "json", "text")
"""Formats whose values are text, which a STRING column shows unchanged."""


def widening_problem(file_format: str, old: DataType, new: DataType) -> str | None:
    """Return why files with values of the type ``old`` cannot be read as ``new``; None if they can."""
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
