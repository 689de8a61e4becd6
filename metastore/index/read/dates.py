"""How the dates of a key are written in the index, and that by text alone: a part of one is a month or a year."""

from __future__ import annotations

import re
from dataclasses import dataclass

from catalog_ext.metastore.backports import StrEnum

FOR_EVER = "9999"
"""The year that stands for what has no end: a map begins before it, and what is missing up to it is no hole."""


class Unit(StrEnum):
    """What a date is cut to."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    @property
    def length(self) -> int:
        """Characters of a date that name the unit: ``2025-01`` of a month."""
        return {"day": 10, "month": 7, "year": 4}[self.value]


@dataclass(frozen=True, slots=True)
class DateForm:
    """How a key has its dates.

    Attributes:
        before: What stands before the date in the key's encoding.
        dash: What stands between year, month and day.
    """

    before: str
    dash: str

    @property
    def is_number(self) -> bool:
        """Whether the date is a number of eight digits."""
        return self.before != ""

    def text(self, date: str) -> str:
        """Return a date, or a month or year, as a partition of the key has it."""
        return date.replace("-", self.dash)

    def encoded(self, date: str) -> str:
        """Return the least encoded value that the key has of a date, or of a month or year."""
        return self.before + self.text(date)

    def length(self, unit: Unit) -> int:
        """Return how many characters of an encoded value name the unit."""
        return len(self.encoded("0000-00-00"[: unit.length]))

    def decoded(self, encoded: str) -> str:
        """Return the date, month or year with which an encoded value begins, as ISO 8601 has it."""
        digits = encoded[len(self.before) : self.length(Unit.DAY)].replace("-", "")
        return "-".join(part for part in (digits[:4], digits[4:6], digits[6:]) if part)


ISO, DIGITS, NUMBER = DateForm("", "-"), DateForm("", ""), DateForm("p08", "")
"""A DATE or a text like ``2025-01-31``, a text like ``20250131``, and a whole number like that."""

_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
# Eight digits may be anything: those of our time are taken for dates.
_DIGITS = f"(?:(?:19|20|21)[0-9]{{2}}|{FOR_EVER}){_MONTH}{_DAY}"
_PATTERNS = {
    ISO: re.compile(f"(?!0000)[0-9]{{4}}-{_MONTH}-{_DAY}"),
    DIGITS: re.compile(_DIGITS),
    NUMBER: re.compile(f"{NUMBER.before}{_DIGITS}"),
}
_OF_TYPES = {
    "date": (ISO,), "string": (ISO, DIGITS), "varchar": (ISO, DIGITS), "char": (ISO, DIGITS), "int": (NUMBER,),
    "bigint": (NUMBER,),
}  # fmt: skip


def form_of(type_name: str, least: str | None, greatest: str | None) -> DateForm | None:
    """Return how a key has its dates, by its least and its greatest value; None where these are none."""
    if least is None or greatest is None:
        return None
    return next(
        (form for form in _OF_TYPES.get(type_name, ()) if all(map(_PATTERNS[form].fullmatch, (least, greatest)))), None
    )
