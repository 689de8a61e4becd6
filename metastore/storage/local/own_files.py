"""The files of a SQLite index, which are no part of a table, in whatever directory they lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite adds to the name of a database for its other files."""


class OwnFiles:
    """Knows the files of an index on the local file system, also by symbolic links.

    They are never listed: a repair would register them as rows of a table that lies in their folder, and an overwrite
    of that table would delete them.
    """

    def __init__(self, databases: Iterable[str] = ()) -> None:
        self.databases = tuple(databases)
        paths = [path + end for path in self.databases for end in ("", *BESIDE)]
        self._real = frozenset(map(os.path.realpath, paths))
        self.names = frozenset(os.path.basename(path) for path in (*paths, *self._real))

    def has(self, path: str) -> bool:
        """Return whether a path is one of the files."""
        # Hardly any file has one of the names: only then the links of its directories are followed.
        return os.path.basename(path) in self.names and os.path.realpath(path) in self._real

    def within(self, directory: str) -> str | None:
        """Return a database that lies in a directory or below it; None where none does."""
        root = os.path.join(os.path.realpath(directory), "")
        return next((path for path in self.databases if os.path.realpath(path).startswith(root)), None)
