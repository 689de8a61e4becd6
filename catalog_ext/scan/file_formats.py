"""Recognizes a file's format from its name or first bytes, and the log directories of other table formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.store import Storage

_SUFFIXES = {
    "parquet": "parquet",
    "orc": "orc",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "txt": "text",
    "text": "text",
}
_OTHER_SUFFIXES = frozenset(
    [
        "avro", "bak", "bat", "cfg", "conf", "db", "doc", "docx", "gif", "hql", "html", "ini", "java", "jpg", "lock",
        "log", "md", "pdf", "png", "pptx", "py", "scala", "sh", "sql", "sqlite", "swp", "tar", "tmp", "toml", "tsv",
        "xls", "xlsx", "xml", "yaml", "yml", "zip",
    ]
)  # fmt: skip
"""File name suffixes that show that a file is no data of a table. Tables of text files may have any suffix."""

_CODECS = frozenset(["br", "bz2", "deflate", "gz", "lz4", "lzo", "snappy", "xz", "zst", "zstd"])
_TEXTS = frozenset({"csv", "json", "text"})
_MAGIC = {"PAR1": "a Parquet file", "ORC": "an ORC file", "Obj\x01": "an Avro file"}

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


def format_of_name(name: str) -> str | None:
    """Return the format that a file's suffix names, before a compression suffix; None if it names no format."""
    return _SUFFIXES.get(_suffix(name) or "")


def foreign_suffix(name: str, file_format: str) -> str | None:
    """Return the suffix that shows that a file is not of its table's format; None if the name shows nothing.

    A name without a suffix, with a number or a hash behind the dot, or with only a codec's suffix shows no format.
    Text, CSV and JSON files may have any suffix except those of binary formats.
    """
    found = format_of_name(name)
    if found is not None:
        is_other = found != file_format and not (found in _TEXTS and file_format in _TEXTS)
        return _suffix(name) if is_other else None
    found = _suffix(name)
    return found if found in (("avro",) if file_format in _TEXTS else _OTHER_SUFFIXES) else None


def names_other_format(name: str, file_format: str) -> bool:
    """Return whether a file's suffix names another format than its table's, as README.txt in a CSV table.

    Unlike ``foreign_suffix``, it also treats the text formats as different from each other. It is used for files
    outside of partition directories.
    """
    found = format_of_name(name)
    return found != file_format if found is not None else _suffix(name) in _OTHER_SUFFIXES


def binary_format(head: str) -> str | None:
    """Return the binary format of a file that begins with these characters; None for any other file."""
    return next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)


def _suffix(name: str) -> str | None:
    """Return the last suffix of a name, or the one before it if the last is a codec's; None without a suffix."""
    suffixes = name.lower().split(".")[1:]
    if suffixes and suffixes[-1] in _CODECS:
        suffixes.pop()
    return suffixes[-1] if suffixes else None


def is_log(directory: str) -> bool:
    """Return whether a directory right below a table's location may be the log of another table format, by its name."""
    return directory in _LOGS or directory == _ICEBERG_DIRECTORY


def log_warning(storage: Storage, root: str, directory: str) -> str | None:
    """Return the warning about a directory for which ``is_log`` is true; None if it turns out to be no log.

    The directory is right below the location ``root``. A directory ``metadata`` is listed once: it is Iceberg's if it
    has a file ``*.metadata.json``.
    """
    if directory != _ICEBERG_DIRECTORY:
        return _LOGS[directory]
    try:
        entries = storage.list_directory(str(Location.parse(root).join(directory)))
    except StorageError as error:
        return f"whether this is an Iceberg table cannot be looked at: {error.message}"
    return _ICEBERG if any(entry.location.name.endswith(_ICEBERG_FILE) for entry in entries) else None
