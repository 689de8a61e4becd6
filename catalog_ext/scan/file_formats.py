"""The format of a file, by its name and by its first bytes."""

from __future__ import annotations

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
"""Suffixes of files that no table here is made of, but for those of text, which may have any name."""

_TEXTS = frozenset({"csv", "json", "text"})
_MAGIC = {"PAR1": "a Parquet file", "ORC": "an ORC file", "Obj\x01": "an Avro file"}


def format_of_name(name: str) -> str | None:
    """Return the format that a file's name ends in, before a suffix of its compression; None if it names none."""
    return next((_SUFFIXES[part] for part in _suffixes(name) if part in _SUFFIXES), None)


def foreign_suffix(name: str, file_format: str) -> str | None:
    """Return the suffix by which a file is not of its table's format; None where its name does not contradict it.

    A name without a suffix, with a number or a hash behind the dot, or with a suffix of a codec alone contradicts no
    format. Of text files, CSV and JSON any suffix is possible but those of binary formats.
    """
    found = format_of_name(name)
    if found is not None:
        is_other = found != file_format and not (found in _TEXTS and file_format in _TEXTS)
        return next(part for part in _suffixes(name) if part in _SUFFIXES) if is_other else None
    if file_format in _TEXTS:
        return "avro" if "avro" in _suffixes(name) else None
    return next((part for part in _suffixes(name) if part in _OTHER_SUFFIXES), None)


def names_other_format(name: str, file_format: str) -> bool:
    """Return whether a file's name says that it is of another format than its table's, as README.txt of a CSV table.

    Unlike ``foreign_suffix`` it tells the text formats apart: it is for files that lie where no data belongs.
    """
    found = format_of_name(name)
    return found != file_format if found is not None else any(part in _OTHER_SUFFIXES for part in _suffixes(name))


def binary_format(head: str) -> str | None:
    """Return which binary format a file is of that begins with these characters; None for any other."""
    return next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)


def _suffixes(name: str) -> list[str]:
    """Return the last two suffixes of a name, the last one first."""
    return list(reversed(name.lower().split(".")[1:][-2:]))
