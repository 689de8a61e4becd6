"""Inspects SQLite files without SQLAlchemy, and without creating or changing a file.

The module also has the constants of the schema for readers that do not load SQLAlchemy.
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
"""The table with the index's schema revision. It does not have Alembic's default name, so that another user of Alembic
can share the database."""

ALIVE = 2**63 - 1
"""The ``end_version`` of a row that no version has ended: it belongs to the newest version."""

_MAGIC = b"SQLite format 3\x00"


def absolute_path(text: str) -> str:
    """Return the absolute path for a user's text: the index records its path, so a file needs one spelling."""
    return os.path.abspath(Path(text).expanduser())


def plain_file(index: str) -> Path | None:
    """Return the file of a SQLite index that is given by a path or a simple URL; None for any other text."""
    text = index
    if "://" in index:
        scheme, _, text = index.partition(":///")
        if scheme not in ("sqlite", "sqlite+pysqlite") or "?" in text or text.startswith("file:"):
            return None
    return Path(absolute_path(text)) if text.strip() else None


@contextlib.contextmanager
def existing(path: Path, *, timeout_s: float = 1.0) -> Iterator[sqlite3.Connection]:
    """Give a read-only connection to an existing SQLite file; a missing file is not created.

    Raises:
        sqlite3.Error: The file cannot be opened, or is not a SQLite database.
    """
    # The mode is not "ro": a read-only connection would leave the files of the write-ahead log behind.
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", timeout=timeout_s, uri=True)
    ) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


class Contents(Enum):
    """The kinds of things that may exist at the path of a SQLite index."""

    NOTHING = "nothing"
    """No file, or a database without a table."""

    FOLDER = "folder"
    """A directory."""

    OTHERS = "others"
    """A database with tables of another program."""

    INDEX = "index"
    """An index; or a file that cannot be read: opening it as an index then fails with the reason."""


def contents(path: Path) -> Contents:
    """Return which kind of thing exists at a path."""
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
    """Return whether something exists at a path, or may exist because its folder cannot be read."""
    # ``stat`` distinguishes the cases. From Python 3.14 on, ``Path.exists`` returns False for a path that may not be
    # read.
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def why_unopened(index: str) -> str | None:
    """Return why an index's SQLite file (path or URL) cannot be opened, as SQLite does not say why; None if unknown."""
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
    """Return whether a path certainly holds an index. A file that is not a SQLite database is not opened by SQLite."""
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_MAGIC)) == _MAGIC
        return is_database and VERSION_TABLE in _tables(path)
    except (OSError, sqlite3.Error):
        return False


def _tables(path: Path) -> set[str]:
    with existing(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
