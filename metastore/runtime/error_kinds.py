"""Limits repeated logging in loops that continue after errors, and names the field for structured log data."""

from __future__ import annotations

FIELDS = "catalog_ext_fields"
"""The attribute of a log record (set by ``extra``) that maps names to texts and numbers."""


class ErrorKinds:
    """The kinds of errors that a loop has already logged."""

    def __init__(self) -> None:
        self._seen: set[type[Exception]] = set()

    def is_new(self, error: Exception) -> bool:
        """Return whether this kind of error is seen for the first time, and remember it."""
        new = type(error) not in self._seen
        self._seen.add(type(error))
        return new
