"""Who an embedded metastore is: an id in its folder, which can be read while no server runs."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

ID_FILE = "metastore-id"


def folder_id(folder: Path) -> str | None:
    """Return the id of the metastore in a folder; None without a metastore, or before its first start."""
    try:
        return (folder / ID_FILE).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def give_folder_id(folder: Path) -> None:
    """Give the metastore in a folder an id, unless it has one; the caller holds the lock of its start."""
    if folder_id(folder) is None:
        unfinished = folder / f"{ID_FILE}.tmp"
        write_private(unfinished, uuid.uuid4().hex)
        unfinished.replace(folder / ID_FILE)
