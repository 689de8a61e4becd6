"""What loops log that go on after an unexpected error, and the field of a log line with more than its text."""

from __future__ import annotations

FIELDS = "catalog_ext_fields"
"""The attribute of a log record (``extra``) that maps names to texts and numbers."""


class ErrorKinds:
    """The kinds of errors that were seen so far."""

    def __init__(self) -> None:
        self._seen: set[type[Exception]] = set()

    def is_new(self, error: Exception) -> bool:
        """Return whether no error of this kind was seen before; from now on one was."""
        new = type(error) not in self._seen
        self._seen.add(type(error))
        return new
