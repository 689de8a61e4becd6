"""Warns of likely mistakes in registered files: other formats, empty files, values that differ only in case."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.scan.file_formats import foreign_suffix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.scan.scratch import Scratch

_NEW_FILES = (
    "SELECT l.name, l.path, l.size FROM listed_files l"
    " WHERE NOT EXISTS (SELECT 1 FROM indexed_partitions i WHERE i.name = l.name)"
    " UNION ALL SELECT name, path, size FROM differing_files WHERE side = 1"
)
_NEW_NAMES = "SELECT name FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions)"
_ALL_NAMES = (
    "SELECT name FROM indexed_partitions UNION SELECT name FROM partitions_in_sync UNION SELECT name FROM"
    " listed_partitions"
)


def warn_of_files(scratch: Scratch, definition: TableDefinition, formats: Mapping[str, str]) -> None:
    """Write a warning for each partition that gets empty files, or files whose names show another format.

    No file is opened: ``verify`` does that.

    Args:
        scratch: The scratch database with the comparison of store and index.
        definition: The table.
        formats: The formats of partitions that differ from the table's, by name.
    """
    # Filter by suffix in the database: most files have the suffix of the table's format, and need no check in Python.
    query = (
        f"SELECT DISTINCT name, path, size FROM ({_NEW_FILES}) WHERE size = 0 OR path NOT LIKE ? ORDER BY name, path"
    )
    suspicious = scratch.rows(query, (f"%.{definition.format}",))
    for name, rows in groupby(suspicious, key=lambda row: row[0]):
        files = [(path, size) for _, path, size in rows]
        file_format = formats.get(name, definition.format)
        empty = [path for path, size in files if size == 0]
        foreign = [
            (path, size) for path, size in files if size and foreign_suffix(path.rpartition("/")[2], file_format)
        ]
        if foreign:
            suffixes = sorted({f".{foreign_suffix(path.rpartition('/')[2], file_format)}" for path, _ in foreign})
            ends = "ends" if len(foreign) == 1 else "end"
            reason = (
                f"{counted(len(foreign), 'file')} of a {file_format} partition {ends} in {', '.join(suffixes)}: "
                f"queries fail unless it is {file_format} all the same. Repair with verify opens the files; the table "
                "property ignored-names leaves names out"
            )
            _warn(scratch, name, foreign[0][0], len(foreign), sum(size for _, size in foreign), reason)
        if empty:
            reason = f"{counted(len(empty), 'file')} of 0 bytes: queries read no row of it"
            _warn(scratch, name, empty[0], len(empty), 0, reason)


def warn_of_cases(scratch: Scratch) -> None:
    """Write a warning for each new partition whose values differ from another partition's only in case."""
    if not scratch.count(f"SELECT EXISTS ({_NEW_NAMES})"):
        return
    # In a group of names that differ only in case, registered names come first, so that new names are compared with
    # them.
    twins = scratch.rows(
        f"WITH every AS ({_ALL_NAMES}),"
        " twins AS (SELECT lower(name) AS low FROM every GROUP BY low HAVING count(*) > 1)"
        f" SELECT lower(name) AS low, name, name IN ({_NEW_NAMES}) AS is_new FROM every"
        " WHERE low IN (SELECT low FROM twins) ORDER BY low, is_new, name"
    )
    for _, rows in groupby(twins, key=lambda row: row[0]):
        (_, first, _), *others = rows
        for _, name, is_new in others:
            # Names that differ only in the case of keys are the same partition: warn only if the values differ.
            if is_new and partition_values(first) != partition_values(name):
                reason = f"its values differ from those of {first} in case only: queries see two partitions"
                _warn(scratch, name, name, None, None, reason)


def _warn(scratch: Scratch, name: str, path: str, files: int | None, size: int | None, reason: str) -> None:
    shown = path if path == name or not name or path.startswith(f"{name}/") else f"{name}/{path}"
    scratch.insert("warned", [(shown, name, files, size, reason)])
