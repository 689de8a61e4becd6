"""Checks whether a file can be read as its table's format, by its first and last bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.repair.orc_types import unreadable_orc_column
from catalog_ext.repair.parquet_types import unreadable_column
from catalog_ext.scan.file_formats import binary_format
from catalog_ext.scan.parquet_footer import read_footer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import Column
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

_HEAD_BYTES = 16
_COMPRESSED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""What a compressed text file of this suffix begins with; other codecs have no sign of their own."""

_MAX_REASON = 300


def unreadable_reason(
    storage: Storage, location: Location, file_format: str, columns: Sequence[Column] = ()
) -> str | None:
    """Return why the file cannot be read as the format, in words; None where nothing speaks against it.

    Parquet and ORC are judged by their footers, which a truncated file has lost; their columns are compared with the
    table's. A text file is judged by its first bytes alone: that it is binary, or not compressed as its name
    says. An empty file of any format has no rows and is read as such. What lies between a file's first and its last
    bytes is not looked at.
    """
    try:
        with storage.open_input_file(location) as file:
            if file.size() == 0:
                return None
            if file_format == "parquet":
                metadata = read_footer(file)
                column = None if metadata is None else unreadable_column(metadata, columns)
                return column and f"the file cannot be read as parquet: {column}"
            if file_format == "orc":
                column = unreadable_orc_column(orc.ORCFile(file).schema, columns)
                return column and f"the file cannot be read as orc: {column}"
            return _no_text(location.name, file.read(_HEAD_BYTES), file_format)
    except CatalogExtError as error:
        return f"the file cannot be looked at: {error.message[:_MAX_REASON]}"
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"the file cannot be read as {file_format}: {str(error)[:_MAX_REASON]}"


def _no_text(name: str, head: bytes, file_format: str) -> str | None:
    suffix = f".{name.rpartition('.')[2].lower()}"
    expected = _COMPRESSED.get(suffix)
    if expected is not None:
        is_compressed = head.startswith(expected)
        return None if is_compressed else f"the file cannot be read as {file_format}: it is not compressed as {suffix}"
    found = binary_format(head.decode("latin-1"))
    return found and f"the file cannot be read as {file_format}: it is {found}"
