"""Literals of predicates, bound to a partition column; a literal may be a value that the column's type cannot hold.

The value in a directory name must fit the column's type; a literal need not. Spark compares by the wider of the two
types: ``k < 3000000000`` holds for every INT, no VARCHAR(3) equals a longer text, and no stored DATE is on or after
year 10000. Such a literal lies between two values of the type, or beyond all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.values import INTEGER_BITS, cast_text, decimal_number, value_text

if TYPE_CHECKING:
    from catalog_ext.metastore.model.types import DataType
    from catalog_ext.metastore.model.values import Scalar

_YEAR = re.compile(r"\s*([+-]?)(\d{4,7})(?=\s*\Z|-)")
_INTEGER = re.compile(r"[+-]?\d{1,80}", re.ASCII)
_CYCLE = 400
"""The Gregorian calendar repeats after so many years."""


@dataclass(frozen=True, slots=True)
class Literal:
    """The position of a literal in the order of the values of a type.

    Attributes:
        floor: The greatest value of the type that is not greater than the literal; None if all values are greater.
        is_value: Whether the literal equals ``floor``, so that it is a value of the type.
    """

    floor: Scalar | None
    is_value: bool = True


def literal_of(value: Scalar, data_type: DataType) -> Literal:
    """Return the position of a literal among the values of a type.

    The literal is a text, or a number that was written in SQL.

    Raises:
        InvalidValueError: The literal cannot be compared with the type, such as a word with a DATE.
    """
    text = value if isinstance(value, str) else value_text(value)
    if data_type.is_string:
        # Spark ignores trailing blanks of a CHAR in comparisons, both in the literal and in the stored value.
        return Literal(text.rstrip(" ") if data_type.name == "char" else text)
    if data_type.is_integer or data_type.name == "decimal":
        return _number(text, data_type, is_text=isinstance(value, str))
    if data_type.name == "binary" and not text:
        # As a directory's text, no bytes mean NULL. As a literal they are less than every value.
        return Literal(None, is_value=False)
    try:
        typed = cast_text(text, data_type)
    except InvalidValueError:
        beyond = _beyond(text, data_type) if isinstance(value, str) else None
        if beyond is None:
            raise
        return beyond
    return Literal(typed)


def _number(text: str, data_type: DataType, *, is_text: bool) -> Literal:
    number = decimal_number(text)
    if number is None or (data_type.is_integer and is_text and not _INTEGER.fullmatch(text.strip())):
        # Spark does not cast this text to the type either: ``cast_text`` raises the error that says why.
        return Literal(cast_text(text, data_type))
    least, greatest = _bounds(data_type)
    if number < least:
        return Literal(None, is_value=False)
    scale = 0 if data_type.is_integer else data_type.parameters[1]
    with localcontext() as context:
        context.prec = 240
        floor = min(number, greatest).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_FLOOR) + 0
    return Literal(int(floor) if data_type.is_integer else floor, is_value=floor == number)


def _beyond(text: str, data_type: DataType) -> Literal | None:
    """Return the position of a date or timestamp whose year is not in 1 to 9999; None for any other text."""
    found = _YEAR.match(text)
    if found is None or data_type.name not in ("date", "timestamp", "timestamp_ntz"):
        return None
    year = int(found[1] + found[2])
    if 1 <= year <= 9999:
        return None
    cast_text(f"{2000 + year % _CYCLE}{text[found.end() :]}", data_type)
    greatest = date.max if data_type.name == "date" else datetime.max
    return Literal(None if year < 1 else greatest, is_value=False)


def least_value(data_type: DataType) -> Scalar:
    """Return the least value of a type for which a literal may lie outside of the type's range."""
    if data_type.name == "binary":
        return ""
    if data_type.name == "date":
        return date.min
    if data_type.name.startswith("timestamp"):
        return datetime.min
    least, _ = _bounds(data_type)
    return int(least) if data_type.is_integer else least


def _bounds(data_type: DataType) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value of an integer or DECIMAL type."""
    if data_type.is_integer:
        half = Decimal(1 << (INTEGER_BITS[data_type.name] - 1))
        return -half, half - 1
    precision, scale = data_type.parameters
    greatest = Decimal(10**precision - 1).scaleb(-scale)
    return -greatest, greatest
