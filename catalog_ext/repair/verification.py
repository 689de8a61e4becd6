"""Opens the files that a repair would register, and leaves out unreadable ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import orc

from catalog_ext.context import RepairProgress
from catalog_ext.metastore.errors import CatalogExtError, InvalidConfigurationError
from catalog_ext.metastore.model.alterations import reads_headers
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import below
from catalog_ext.repair.column_types import unreadable_orc_column, unreadable_parquet_column
from catalog_ext.repair.options import RepairMode
from catalog_ext.scan.csv_dialect import Dialect, header_names
from catalog_ext.scan.file_formats import binary_format
from catalog_ext.scan.parquet_footer import read_footer
from catalog_ext.scan.text_lines import FOREIGN_CODECS, ReaderOptions, read_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.context import Progress
    from catalog_ext.metastore.model.tables import Column, Table, TableDefinition
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.location_pattern import LocationPattern
    from catalog_ext.scan.scratch import Scratch

    Look = Callable[[Storage, Location, str], str | None]

_FILES_AT_A_TIME = 1024
"""The number of files that are checked before their outcomes are written; this bounds the memory."""

_LEFT = {0: "it is not registered", 1: "what is registered of it stays"}
_STAYS = {1: "it stays registered, and queries that read it fail. Delete it or put a whole file there, then repair"}

_NEW = (
    "SELECT l.name, l.path, l.size, 0, NULL FROM listed_files l"
    " WHERE NOT EXISTS (SELECT 1 FROM indexed_partitions i WHERE i.name = l.name)"
)
_CHANGED = (
    "SELECT d.name, d.path, d.size, EXISTS (SELECT 1 FROM differing_files o"
    " WHERE o.name = d.name AND o.path = d.path AND o.side = 0), i.location"
    " FROM differing_files d JOIN indexed_partitions i USING (name) WHERE d.side = 1"
)


class _File(NamedTuple):
    """A file that the repair would register.

    Attributes:
        known: Whether a file with its path is registered already.
        directory: The explicit location of its partition; None for the default directory.
    """

    name: str
    path: str
    size: int
    known: int
    directory: str | None


class Verification:
    """Opens new and changed files in parallel, and checks that Spark can read them.

    Args:
        storage: The stores.
        table: The table.
        scratch: The repair's scratch database; unreadable files are removed from it, and reported as skipped.
        progress: A callback for progress.
        pattern: The table's location, if it has wildcards.
        look: Returns why a file cannot be read; None compares the file with the table's format and columns.
        formats: The formats of partitions that differ from the table's, by name.
    """

    def __init__(
        self,
        storage: Storage,
        table: Table,
        scratch: Scratch,
        progress: Progress,
        look: Look | None = None,
        *,
        pattern: LocationPattern | None = None,
        formats: Mapping[str, str] | None = None,
    ) -> None:
        self._formats = formats or {}
        self._pattern = pattern
        self._storage = storage
        self._table = table
        self._scratch = scratch
        self._progress = progress
        self._look = look or partial(unreadable_reason, columns=table.definition.columns)

    def run(self, mode: RepairMode) -> None:
        """Remove unreadable files from the repair. A new file is not registered; a changed file stays as registered.

        A new partition with only unreadable files is not registered either: it would look like an empty partition.
        """
        if mode is RepairMode.DROP:
            return
        queries = [_NEW] if mode is RepairMode.ADD else [_NEW, _CHANGED]
        # DISTINCT, because a listing may return a file twice.
        rows = (self._scratch.rows(f"SELECT DISTINCT * FROM ({query}) ORDER BY 1, 2") for query in queries)
        for found in self._unreadable(_File(*row) for row in chain.from_iterable(rows)):
            self._skip(found, _LEFT)
            self._scratch.insert("unreadable", ((file.name, file.path) for file, _ in found))
        self._leave_out()

    def run_registered(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Report the registered files that cannot be read; they stay registered.

        Args:
            batches: The registered files, as ``Partitions.files`` yields them. Files that the repair changes or drops
                are ignored: ``run`` has checked the changed ones.
        """
        # Each registered file is looked up in this table: without the database index every look-up would scan it.
        self._scratch.execute("CREATE INDEX IF NOT EXISTS differing_by_path ON differing_files (name, path)")
        for found in self._unreadable(self._registered(batches)):
            self._skip(found, _STAYS)

    def _unreadable(self, files: Iterable[_File]) -> Iterator[list[tuple[_File, str]]]:
        """Open files in parallel; yield the unreadable ones, with the reasons, chunk by chunk."""
        seen = 0
        with ThreadPoolExecutor(self._storage.listing_threads, thread_name_prefix="catalog-ext-verify") as pool:
            for chunk in batched(files, _FILES_AT_A_TIME):
                outcomes = pool.map(self._reason, chunk)
                yield [(file, why) for file, why in zip(chunk, outcomes, strict=True) if why is not None]
                seen += len(chunk)
                self._progress(RepairProgress("verifying", 0, seen))

    def _registered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_File]:
        handled = (
            "SELECT EXISTS (SELECT 1 FROM differing_files WHERE name = ? AND path = ?)"
            " OR ? IN (SELECT name FROM protected)"
        )
        for batch in batches:
            columns = (batch.column(c).to_pylist() for c in ("partition", "path", "size", "location"))
            for name, path, size, location in zip(*columns, strict=True):
                if not self._scratch.count(handled, (name, path, name)):
                    yield _File(name, path, size, 1, location)

    def _reason(self, file: _File) -> str | None:
        if self._pattern is not None:
            place = below(self._pattern.root, file.path)
        else:
            place = below(Location.parse(self._table.directory(file.name, file.directory)), file.path)
        definition = self._table.definition
        reason = self._look(self._storage, place, self._formats.get(file.name, definition.format))
        # Check the header of CSV files, which is read with the table's options. Partitions with their own format have
        # their own options, so they are not checked.
        if reason is None and definition.format == "csv" and file.size and file.name not in self._formats:
            reason = unfitting_header(self._storage, place, definition)
        return reason

    def _skip(self, found: Iterable[tuple[_File, str]], left: Mapping[int, str]) -> None:
        whole = self._pattern is not None
        self._scratch.insert("skipped", (
            (
                f.path if whole or not f.name else f"{f.name}/{f.path}", f.name, 1, f.size,
                f"{why.rstrip('.')}; {left[f.known]}",
            )
            for f, why in found
        ))  # fmt: skip

    def _leave_out(self) -> None:
        is_unreadable = "(name, path) IN (SELECT name, path FROM unreadable)"
        self._scratch.execute(f"DELETE FROM listed_files WHERE {is_unreadable}")
        self._scratch.execute(f"DELETE FROM differing_files WHERE {is_unreadable}")
        self._scratch.execute(
            "DELETE FROM listed_partitions WHERE name IN (SELECT name FROM unreadable)"
            " AND name NOT IN (SELECT name FROM listed_files) AND name NOT IN (SELECT name FROM indexed_partitions)"
        )


_MAGIC_BYTES = 16
_COMPRESSED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""The first bytes of compressed text files, by suffix; other codecs have no magic number."""

_MAX_REASON = 300


def unreadable_reason(
    storage: Storage, location: Location, file_format: str, columns: Sequence[Column] = ()
) -> str | None:
    """Return why the file cannot be read in the format; None if no reason was found.

    For Parquet and ORC the footer is read, which a truncated file has lost, and its columns are compared with the
    table's. Of a text file only the first bytes are read: they may be binary, or not compressed as its name says. An
    empty file of any format has no rows and is valid. The bytes between a file's first and last ones are not read.
    """
    try:
        with storage.open_input_file(location) as file:
            if file.size() == 0:
                return None
            if file_format == "parquet":
                metadata = read_footer(file)
                column = None if metadata is None else unreadable_parquet_column(metadata, columns)
                return column and f"the file cannot be read as parquet: {column}"
            if file_format == "orc":
                column = unreadable_orc_column(orc.ORCFile(file).schema, columns)
                return column and f"the file cannot be read as orc: {column}"
            return _no_text(location.name, file.read(_MAGIC_BYTES), file_format)
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
    """Return why a query cannot read a CSV file by its header; None if it can.

    The rule is the connector's (``CsvHeaderReaderFactory``): a header with names that are no columns, and without some
    column, may be a line of values. Not checked are files that are read by position, and files whose header cannot be
    read here (another codec, an encoding that Python lacks, a record longer than 16 KiB).
    """
    options = ReaderOptions(definition.options)
    if not reads_headers(definition) or str(location).lower().endswith(FOREIGN_CODECS):
        return None
    try:
        encoding = options.encoding()
    except InvalidConfigurationError:
        # Python does not know the encoding, but Java may: no error.
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
