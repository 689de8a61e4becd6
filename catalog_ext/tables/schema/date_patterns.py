"""Recognizes the texts that Spark's CSV and JSON inference reads as dates and timestamps."""

from __future__ import annotations

import re
from datetime import date

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.types import DataType
from catalog_ext.metastore.model.values import cast_text

_NTZ = DataType("timestamp_ntz")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_CLOCK = re.compile(r"\s*T?\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?\s*", re.ASCII)
_REGION = re.compile(r"(?<=\d) ?[A-Za-z]+/[A-Za-z_/]+\s*\Z")
_ZONE = r"(?:Z|[+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?|[A-Za-z]+(?:/[A-Za-z_]+)*(?:[+-]\d+)?)"
_TOKEN = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|(.)", re.DOTALL)


def is_date(text: str) -> bool:
    """Return whether the text is a date by Spark's default pattern, ``yyyy-MM-dd``."""
    match = _DATE.fullmatch(text)
    return match is not None and _exists(*map(int, match.groups()))


def is_timestamp(text: str) -> bool:
    """Return whether Spark casts the text to TIMESTAMP; Spark infers timestamps without a pattern like this."""
    if _CLOCK.fullmatch(text):
        return True
    try:
        return cast_text(_REGION.sub("", text), _NTZ) is not None
    except InvalidValueError:
        return False


class DatePattern:
    """A ``dateFormat`` or ``timestampFormat`` in the letters of Java's ``DateTimeFormatter``, as Spark accepts it.

    It matches texts that have the pattern's shape, and name a day that exists.
    """

    def __init__(self, pattern: str) -> None:
        self._named: set[str] = set()
        parts = [self._part(*m.groups()) for m in _TOKEN.finditer(pattern)]
        self._regex = re.compile("".join(parts), re.ASCII | re.IGNORECASE)

    def matches(self, text: str) -> bool:
        """Return whether the text matches the pattern."""
        match = self._regex.fullmatch(text)
        if match is None:
            return False
        found = match.groupdict()
        year = int(found.get("y") or 2000)
        return _exists(year + 2000 if year < 100 else year, int(found.get("M") or 1), int(found.get("d") or 1))

    def _part(self, literal: str | None, run: str | None, letter: str | None, other: str | None) -> str:
        if literal is not None:
            return re.escape(literal.replace("''", "'") or "'")
        if run is None or letter is None:
            return {"[": "(?:", "]": ")?"}.get(other or "") or re.escape(other or "")
        if letter in "yuMLd" and len(run) != 3 and not (letter in "ML" and len(run) > 3):
            return self._number({"u": "y", "L": "M"}.get(letter, letter), len(run))
        if letter in "HhKkmsSnA":
            return rf"\d{{1,{max(2, len(run))}}}" if len(run) == 1 else rf"\d{{{len(run)}}}"
        return _ZONE if letter in "XxZzVO" else r"[^\W\d_]+\.?"

    def _number(self, name: str, length: int) -> str:
        digits = r"\d{1,9}" if name == "y" and length == 1 else r"\d{1,2}" if length == 1 else rf"\d{{{length}}}"
        if name in self._named:
            return digits
        self._named.add(name)
        return f"(?P<{name}>{digits})"


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
