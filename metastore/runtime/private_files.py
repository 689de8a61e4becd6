"""Files and folders that only their owner may use: the index, the embedded metastore, its state and its log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STATE_FOLDER = ".catalog-ext"
"""The folder that holds the embedded index and the embedded metastore."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def make_folders(folder: Path) -> None:
    """Make a folder and those above that are missing.

    The state folder and all below it get mode 0700. Other new folders, and folders that exist, keep the mode that the
    user's umask or a person gave them: a team may share an index on purpose.

    Raises:
        OSError: A folder cannot be made, or a file is in its place.
    """
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
    """Make a folder for its owner alone, with mode 0700, and those above it as ``make_folders`` does.

    Raises:
        OSError: It cannot be made, or a file is in its place.
    """
    make_folders(folder.parent)
    folder.mkdir(FOLDER_MODE, exist_ok=True)


def make_private_file(file: Path) -> None:
    """Make an empty file for its owner alone, unless it exists.

    Raises:
        OSError: It cannot be made.
    """
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    except FileExistsError:
        return


def write_private(file: Path, text: str) -> None:
    """Write a text file that only its owner may read.

    Raises:
        OSError: It cannot be written.
    """
    make_private_file(file)
    file.write_text(text, encoding="utf-8")
