"""Literals of predicates, bound to a partition column; they need not be values of its type.

A directory's text must fit the column's type; a literal need not. Spark compares by the wider of the two types: ``k <
3000000000`` holds for every INT, no VARCHAR(3) equals a longer text, and no stored DATE is on or after year 10000. Such
a literal lies between two values of the type, or beyond all of them.
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
"""Years after which the calendar repeats itself."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Where a literal lies among the values of a type.

    Attributes:
        floor: The greatest value that is not greater; None where it is less than all of them.
        is_value: Whether it is that value.
    """

    floor: Scalar | None
    is_value: bool = True


def literal_of(value: Scalar, data_type: DataType) -> Literal:
    """Return the position of a literal among the values of a type.

    The value is a text, or a number of SQL text.

    Raises:
        InvalidValueError: It is of another kind, such as a word for a DATE.
    """
    text = value if isinstance(value, str) else value_text(value)
    if data_type.is_string:
        # Trailing blanks of a CHAR do not count, neither in a literal nor in a stored value.
        return Literal(text.rstrip(" ") if data_type.name == "char" else text)
    if data_type.is_integer or data_type.name == "decimal":
        return _number(text, data_type, is_text=isinstance(value, str))
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
        # A text that Spark does not cast to the type either: this says why.
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
    """Return the position of a date with a year out of range; None if the text is no date."""
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
    """Return the least value of a type whose literals may lie beyond all of its values."""
    if data_type.name == "date":
        return date.min
    if data_type.name.startswith("timestamp"):
        return datetime.min
    least, _ = _bounds(data_type)
    return int(least) if data_type.is_integer else least


def _bounds(data_type: DataType) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value of a type of exact numbers."""
    if data_type.is_integer:
        half = Decimal(1 << (INTEGER_BITS[data_type.name] - 1))
        return -half, half - 1
    precision, scale = data_type.parameters
    greatest = Decimal(10**precision - 1).scaleb(-scale)
    return -greatest, greatest
