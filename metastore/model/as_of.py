"""Which earlier state of a table a query reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from catalog_ext.metastore.backports import from_iso
from catalog_ext.metastore.errors import InvalidInputError

Version: TypeAlias = "int | str | datetime"
"""A version of a table as callers name it: its number, the name of a tag, or a time with a zone, whose newest version
is meant."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A version of a table, by its number, a time or a tag; one of the attributes is set.

    Attributes:
        version: The version's number.
        timestamp_ms: The time whose newest version is read, in milliseconds since the epoch, UTC.
        tag: The name of a tag of the version.
    """

    version: int | None = None
    timestamp_ms: int | None = None
    tag: str | None = None

    @classmethod
    def of(cls, version: Version) -> AsOf:
        """Return a number, the name of a tag, or a time as such a version.

        Raises:
            InvalidInputError: The time has no zone, or the argument is neither of them.
        """
        if isinstance(version, str):
            return cls(tag=version)
        if isinstance(version, datetime):
            if version.tzinfo is None:
                raise InvalidInputError(
                    f"The time {version} has no zone. Give it one: version.replace(tzinfo=timezone.utc).",
                    {"version": str(version)},
                )
            return cls(timestamp_ms=(version - _EPOCH) // timedelta(milliseconds=1))
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidInputError(
                f"A version is a number, a tag's name or a time (datetime), and not {version!r}.",
                {"version": str(version)},
            )
        return cls(version)


def time_of(text: str) -> datetime:
    """Return a time in ISO form, such as ``2025-01-01T09:00:00+01:00``; without an offset it is in UTC.

    Raises:
        InvalidInputError: The text is no such time.
    """
    try:
        at = from_iso(text.strip())
    except ValueError as error:
        raise InvalidInputError(
            f"{text[:60]!r} is not a time. Use a form such as 2027-01-31 or 2027-01-31T12:00:00+01:00."
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)
