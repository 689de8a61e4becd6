"""Looks into SQLite files by themselves: without SQLAlchemy, and without making or changing anything."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore.index.database.constants import VERSION_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"SQLite format 3\x00"


def absolute_path(text: str) -> str:
    """Return the path that a user means. One file has one name: an index says of itself where it is."""
    return os.path.abspath(Path(text).expanduser())


def plain_file(index: str) -> Path | None:
    """Return the file of a SQLite index, which is given by its path or a plain URL; None for anything else."""
    text = index
    if "://" in index:
        scheme, _, text = index.partition(":///")
        if scheme not in ("sqlite", "sqlite+pysqlite") or "?" in text or text.startswith("file:"):
            return None
    return Path(absolute_path(text)) if text.strip() else None


@contextlib.contextmanager
def existing(path: Path, *, timeout_s: float = 1.0) -> Iterator[sqlite3.Connection]:
    """Give a connection to a file that is there; none is made.

    Raises:
        sqlite3.Error: It cannot be opened, or it is no database.
    """
    # Not "ro": such a connection would leave the files of the write-ahead log behind.
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", timeout=timeout_s, uri=True)
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


class Contents(Enum):
    """What there is at the path of a SQLite index."""

    NOTHING = "nothing"
    """No file, or one without a table."""

    OTHERS = "others"
    """Tables of somebody else."""

    INDEX = "index"
    """An index; or what cannot be looked into, so that who opens it hears why."""


def contents(path: Path) -> Contents:
    """Return what there is at a path."""
    if not path.exists():
        return Contents.NOTHING
    try:
        names = _tables(path)
    except sqlite3.Error:
        return Contents.INDEX
    return Contents.INDEX if VERSION_TABLE in names else Contents.OTHERS if names else Contents.NOTHING


def holds_index(path: Path) -> bool:
    """Return whether there is an index for certain; a file that is no SQLite database is not opened as one."""
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_MAGIC)) == _MAGIC
        return is_database and VERSION_TABLE in _tables(path)
    except (OSError, sqlite3.Error):
        return False


def _tables(path: Path) -> set[str]:
    with existing(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
