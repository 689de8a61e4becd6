"""JSON files of Hive's tables have keys in a case of their own, which Hive's reader does not mind and Spark's does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, StorageError, UnsupportedFormatError
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.tables.schema_inference import infer_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.model.types import DataType
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.tables.schema_inference import FileRef

logger = logging.getLogger(__name__)

SAMPLE = 10
"""Files whose first part is read."""


def check_keys(storage: Storage, definition: TableDefinition, sample: Sequence[FileRef]) -> None:
    """Return unless Hive finds values in a table's JSON files that Spark would show as NULL.

    Files that cannot be read are not looked at, with a warning: they are no reason to refuse the table.

    Args:
        storage: Where the files are.
        definition: A table that a Hive engine has made.
        sample: Some of its files.

    Raises:
        UnsupportedFormatError: A key is a column's, or a field's, but for the case of its letters.
    """
    if not sample:
        return
    try:
        found = infer_columns(storage, sample, "json", definition.options)
    except (InvalidInputError, StorageError) as error:
        logger.warning("The keys of the JSON files of table %s were not looked at: %s", definition.identifier, error)
        return
    columns = {column.name: parse_type(column.type) for column in definition.columns}
    differing = _differing(columns, {column.name: parse_type(column.type) for column in found})
    if differing is None:
        return
    column, key = differing
    identifier = str(definition.identifier)
    raise UnsupportedFormatError(
        f"The metastore's table {identifier} cannot be imported: its JSON files have the key {key!r} where it has "
        f"{column!r} (one of them is {sample[0][0]}). Hive finds it all the same, and Spark would read NULL. Register "
        "the files under another name, with columns spelled as in the files, or write them anew in the table's "
        "spelling.",
        {"table": identifier, "column": column},
    )


def _differing(expected: dict[str, DataType], found: dict[str, DataType], below: str = "") -> tuple[str, str] | None:
    """Return the first expected name that is found in another case only, and how it is found."""
    spelled = {name.lower(): name for name in found}
    for name, expected_type in expected.items():
        if name not in found:
            if other := spelled.get(name.lower()):
                return f"{below}{name}", f"{below}{other}"
            continue
        inner = _differing_inside(expected_type, found[name], f"{below}{name}.")
        if inner is not None:
            return inner
    return None


def _differing_inside(expected: DataType, found: DataType, below: str) -> tuple[str, str] | None:
    if expected.name == found.name == "array":
        return _differing_inside(expected.children[0], found.children[0], below)
    if expected.name == found.name == "struct":
        fields, others = ({f.name: f.type for f in one.fields} for one in (expected, found))
        return _differing(fields, others, below)
    return None
