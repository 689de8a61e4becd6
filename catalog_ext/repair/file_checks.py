"""Checks whether a file can be read as its table: its first and last bytes, and the header of a CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc

from catalog_ext.metastore.errors import CatalogExtError, InvalidConfigurationError
from catalog_ext.repair.orc_types import unreadable_orc_column
from catalog_ext.repair.parquet_types import unreadable_column
from catalog_ext.scan.csv_dialect import Dialect, header_names
from catalog_ext.scan.file_formats import binary_format
from catalog_ext.scan.parquet_footer import read_footer
from catalog_ext.scan.text_lines import FOREIGN_CODECS, ReaderOptions, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_ext.metastore.model.tables import Column, TableDefinition
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


_HEAD_BYTES = 16 * 1024
_MAX_NAMES = 300


def unfitting_header(storage: Storage, location: Location, definition: TableDefinition) -> str | None:
    """Return why a query cannot read a CSV file by its header, in words; None where it can.

    The rule is that of the connector (``CsvHeaderReaderFactory``): a header that has names which are no columns, and
    lacks a column, may be a line of values. Files that are read by position, and those whose header cannot be read
    here (another codec, an encoding that Python lacks, a record longer than 16 KiB), are not judged.
    """
    options = ReaderOptions(definition.options)
    if not _are_headers_read(definition, options) or str(location).lower().endswith(FOREIGN_CODECS):
        return None
    try:
        encoding = options.encoding()
    except InvalidConfigurationError:
        # Java may have the encoding.
        return None
    try:
        head = read_head(storage, location, _HEAD_BYTES, encoding)
    except CatalogExtError as error:
        return f"the file cannot be looked at: {error.message[:_MAX_NAMES]}"
    rows = Dialect.of(options).rows(head)
    first = next(rows, None)
    if first is None or not (head.complete or len(head.lines(options.text("lineSep", default="") or None)) > 1):
        return None
    return _misfit(header_names(first, options), definition, options)


def _are_headers_read(definition: TableDefinition, options: ReaderOptions) -> bool:
    by_position = options.text("enforceSchema", "serde", default="")
    return definition.format == "csv" and options.flag("header") and not by_position


def _misfit(header: list[str], definition: TableDefinition, options: ReaderOptions) -> str | None:
    corrupt = options.text("columnNameOfCorruptRecord", default="_corrupt_record").lower()
    columns = [column.name for column in definition.columns if column.name.lower() != corrupt]
    known = {name.lower() for name in (*columns, *(key.name for key in definition.partition_columns))}
    there = {name.lower() for name in header}
    unknown = [name for name in header if name.lower() not in known]
    missing = [name for name in columns if name.lower() not in there]
    if not unknown or not missing:
        return None
    return (
        f"the file cannot be read as csv: its header is ({_shown(header)}), which has {_shown(unknown)}, no column of "
        f"the table, and lacks {_shown(missing)}. Either the file has no header, or a column is called otherwise"
    )


def _shown(names: Iterable[str]) -> str:
    return ", ".join(names)[:_MAX_NAMES]
