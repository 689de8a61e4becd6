"""Looks into SQLite files by themselves: without SQLAlchemy, and without making or changing anything.

It has the constants of the schema that readers without SQLAlchemy need.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION_TABLE = "catalog_ext_schema_version"
"""The table that says which revision the index is at: our own name, so that it can share a database with another user
of alembic."""

ALIVE = 2**63 - 1
"""``end_version`` of a row that no version has ended."""

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
    # Not "ro": a read-only connection would leave the files of the write-ahead log behind.
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", timeout=timeout_s, uri=True)
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


class Contents(Enum):
    """The contents of the path of a SQLite index."""

    NOTHING = "nothing"
    """No file, or one without a table."""

    FOLDER = "folder"
    """A directory."""

    OTHERS = "others"
    """Tables of another program."""

    INDEX = "index"
    """An index; or what cannot be looked into, so that opening it fails with the reason."""


def contents(path: Path) -> Contents:
    """Return the contents of a path."""
    if not may_exist(path):
        return Contents.NOTHING
    if _is_folder(path):
        return Contents.FOLDER
    try:
        names = _tables(path)
    except sqlite3.Error:
        return Contents.INDEX
    return Contents.INDEX if VERSION_TABLE in names else Contents.OTHERS if names else Contents.NOTHING


def may_exist(path: Path) -> bool:
    """Return whether something is at a path, or may be, because its folder cannot be looked into."""
    # From Python 3.14 on, `Path.exists` returns False for a path that may not be read.
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def why_unopened(index: str) -> str | None:
    """Return why the SQLite file of an index (path or URL) cannot be opened, which SQLite does not say; or None."""
    path = plain_file(index)
    if path is None:
        return None
    folder = path.parent
    if _is_folder(path):
        return "it is a directory. Name the file in it"
    if not folder.is_dir():
        return f"its folder {folder} is not there, or this user cannot look into it. Let him, or give another path"
    if not os.access(folder, os.X_OK):
        return f"this user cannot look into its folder {folder}. Let him, or give another path"
    if not may_exist(path):
        return f"no file can be made in its folder {folder}. Let this user write there, or give another path"
    if not os.access(path, os.R_OK | os.W_OK):
        return "this user may not read and write the file. Let him, or name another index"
    return None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


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
