"""Which earlier state of a table a query reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AsOf:
    """A version of a table, by its number or by a time; one of the attributes is set.

    Attributes:
        version: The version's number.
        timestamp_ms: The time whose newest version is read, in milliseconds since the epoch, UTC.
    """

    version: int | None = None
    timestamp_ms: int | None = None
