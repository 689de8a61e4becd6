"""Directories by which another table format, or a streaming sink, says which files of a location count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.store import Storage

_COPY = "Copy the table with an engine that reads it: CREATE TABLE … AS SELECT"
_LOGS = {
    "_spark_metadata": (
        "the log of a streaming sink is not read: files of failed batches, which it leaves out, are rows of the table. "
        "Delete these files, or write the stream to the table itself"
    ),
    "_delta_log": (
        "this directory is a Delta table, whose log is not read: files that it has replaced or deleted are rows here "
        f"until VACUUM removes them, and deletion vectors are not applied. {_COPY}"
    ),
    ".hoodie": (
        "this directory is a Hudi table, whose timeline is not read: every version of a file is rows here until Hudi "
        f"cleans it, and log files are not applied. {_COPY}"
    ),
}
_ICEBERG_DIRECTORY, _ICEBERG_FILE = "metadata", ".metadata.json"
_ICEBERG = (
    "this directory is an Iceberg table, whose metadata is not read: data files that it has replaced or deleted are "
    f"rows of a table at its data directory, and delete files are not applied. {_COPY}"
)


def is_log(directory: str) -> bool:
    """Return whether a directory right below a table's location may be such a log, by its name."""
    return directory in _LOGS or directory == _ICEBERG_DIRECTORY


def log_warning(storage: Storage, root: str, directory: str) -> str | None:
    """Return the warning about a directory for which ``is_log`` is true; None if it is no log after all.

    A directory ``metadata`` is listed once: it is Iceberg's if it has a file ``*.metadata.json``.

    Args:
        storage: The stores.
        root: The table's location.
        directory: Its name below that.
    """
    if directory != _ICEBERG_DIRECTORY:
        return _LOGS[directory]
    try:
        entries = storage.list_directory(str(Location.parse(root).join(directory)))
    except StorageError as error:
        return f"whether this is an Iceberg table cannot be looked at: {error.message}"
    return _ICEBERG if any(entry.location.name.endswith(_ICEBERG_FILE) for entry in entries) else None
