"""Which earlier state of a table a query reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from catalog_ext.metastore.errors import InvalidInputError

Version: TypeAlias = "int | datetime"
"""A version of a table as callers name it: its number, or a time with a zone, whose newest version is meant."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class AsOf:
    """A version of a table, by its number or by a time; one of the attributes is set.

    Attributes:
        version: The version's number.
        timestamp_ms: The time whose newest version is read, in milliseconds since the epoch, UTC.
    """

    version: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def of(cls, version: Version) -> AsOf:
        """Return a number or a time as such a version.

        Raises:
            InvalidInputError: The time has no zone, or the argument is neither.
        """
        if isinstance(version, datetime):
            if version.tzinfo is None:
                raise InvalidInputError(
                    f"The time {version} has no zone. Give it one: version.replace(tzinfo=timezone.utc).",
                    {"version": str(version)},
                )
            return cls(timestamp_ms=(version - _EPOCH) // timedelta(milliseconds=1))
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidInputError(
                f"A version is a number or a time (datetime), and not {version!r}.", {"version": str(version)}
            )
        return cls(version)
