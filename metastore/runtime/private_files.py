"""Creates files and folders that only their owner can use, for the index and for the embedded metastore with its log.

Every function raises ``OSError`` if the operating system refuses an operation.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

STATE_FOLDER = ".catalog-ext"
"""The folder that holds the embedded index and the embedded metastore."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_OTHERS, _GROUP = stat.S_IRWXO, stat.S_IRWXG


def make_folders(folder: Path) -> None:
    """Make a folder and its missing ancestors.

    The state folder and everything below it get mode 0700. An existing state folder is closed to other users (see
    ``close_to_others``). Other new folders get the mode of the user's umask; other existing ones stay unchanged.

    Raises:
        OSError: A folder cannot be made, or a file is in its place.
    """
    for place in (folder, *folder.parents):
        if place.name == STATE_FOLDER and place.is_dir():
            close_to_others(place)
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for place in reversed(missing):
        private = STATE_FOLDER in place.parts
        place.mkdir(FOLDER_MODE if private else 0o777, exist_ok=True)


def make_private_folder(folder: Path) -> None:
    """Make a folder with mode 0700; its missing ancestors are made as in ``make_folders``.

    An existing folder is closed to other users (see ``close_to_others``).

    Raises:
        OSError: The folder cannot be made, or a file is in its place.
    """
    make_folders(folder.parent)
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    close_to_others(folder)


def close_to_others(folder: Path) -> None:
    """Remove other users' permissions on an existing folder of this user, which may have the umask's mode.

    The group keeps its permissions if it may write: a team may share an index on purpose, and a reader of SQLite's
    files needs write permission, too. A folder of another user stays unchanged.
    """
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    closed = mode & ~(_OTHERS if mode & stat.S_IWGRP else _OTHERS | _GROUP)
    if closed != mode and found.st_uid == os.geteuid():
        folder.chmod(closed)
        logger.warning("Closed the folder %s to other users: its mode was %o, and is %o", folder, mode, closed)


def make_private_file(file: Path) -> None:
    """Make an empty file that only its owner can read and write, unless the file exists."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    except FileExistsError:
        return


def write_private(file: Path, text: str) -> None:
    """Write a text file that only its owner can read and write."""
    make_private_file(file)
    file.write_text(text, encoding="utf-8")
