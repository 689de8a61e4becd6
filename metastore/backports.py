"""Additions of Python 3.11, for Python 3.10. Remove this module when PySpark 4.2, the last one for 3.10, is dropped."""

from __future__ import annotations

import re
import sys
from datetime import datetime

if sys.version_info >= (3, 11):
    from enum import StrEnum as StrEnum

    from_iso = datetime.fromisoformat
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enumeration whose members are strings, and whose ``str()`` is the value."""

        __str__ = str.__str__
        __format__ = str.__format__  # type: ignore[assignment]

    def from_iso(text: str) -> datetime:
        """Parse a time in ISO 8601; also accept the zone ``Z`` and any number of digits after the seconds."""
        whole = re.sub(r"\.(\d+)", lambda digits: f".{digits[1][:6]:0<6}", text)
        return datetime.fromisoformat(re.sub("Z$", "+00:00", whole))


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, as ``BaseException.add_note`` does."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
