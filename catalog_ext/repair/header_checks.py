"""Checks whether the header of a CSV file fits the columns of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, InvalidConfigurationError
from catalog_ext.scan.csv_dialect import Dialect, header_names
from catalog_ext.scan.text_lines import FOREIGN_CODECS, ReaderOptions, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

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
