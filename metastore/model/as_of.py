"""Which earlier state of a table a query reads."""

from __future__ import annotations

from dataclasses import dataclass


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
