"""What Python 3.11 brought, for 3.10; goes with the last PySpark that takes 3.10, which is 4.2."""

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
        """An enumeration whose members are strings, and are shown as strings."""

        __str__ = str.__str__
        __format__ = str.__format__  # type: ignore[assignment]

    def from_iso(text: str) -> datetime:
        """Read a time in ISO 8601, with a zone of ``Z`` and any number of digits of a second too."""
        whole = re.sub(r"\.(\d+)", lambda digits: f".{digits[1][:6]:0<6}", text)
        return datetime.fromisoformat(re.sub("Z$", "+00:00", whole))


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, as ``BaseException.add_note`` does."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
