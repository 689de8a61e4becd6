"""Tells the first error of a kind from its repetitions, for loops that log what nobody foresaw and go on."""

from __future__ import annotations


class ErrorKinds:
    """The kinds of errors that were seen so far."""

    def __init__(self) -> None:
        self._seen: set[type[Exception]] = set()

    def is_new(self, error: Exception) -> bool:
        """Return whether no error of this kind was seen before; from now on one was."""
        new = type(error) not in self._seen
        self._seen.add(type(error))
        return new
