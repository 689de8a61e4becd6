"""Reads the store and the index into the scratch database, in which a repair compares them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from catalog_ext.context import RepairProgress, TimeLeft
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.storage.entries import (
    MARKER,
    NOT_TEXT,
    ListedDirectory,
    ListedFile,
    ListedOther,
    ListingFailure,
)
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import DATA
from catalog_ext.scan.file_formats import is_log, log_warning, names_other_format
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.scan.location_listing import hidden, why_hidden
from catalog_ext.scan.scratch_comparison import Everything

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from catalog_ext.context import Progress
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Scratch
    from catalog_ext.scan.scratch_comparison import FileRow

_BUFFER_ROWS = 5000
OF_PARTITIONS = ("partition", "location", "files", "bytes")
OF_FILES = ("partition", "path", "size", "modified_ms", "etag_hash")
INCOMPLETE = "the listing is incomplete: "
"""The start of the reason for each path whose listing failed."""

MISSING = "the location names it, and nothing lies there"
"""The reason for a path that a location with wildcards names explicitly, and that does not exist."""

_ABOVE = "the file lies above the partition directories"


def printable(path: str) -> str:
    r"""Return the path with bytes that are not UTF-8 shown as ``\\udcXX``."""
    return (
        path if is_storable(path) else path.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\0")
    )


class StoreObserver:
    """Lists a table's tree into the scratch database."""

    def __init__(
        self,
        storage: Storage,
        table: Table,
        layout: Layout,
        scratch: Scratch,
        progress: Progress,
        listed: Everything | None = None,
    ) -> None:
        self._storage = storage
        self._listed = listed or Everything(scratch, "listed")
        self._table = table
        self._layout = layout
        self._scratch = scratch
        self._progress = progress
        self._judge = layout.judge
        self._ignores = layout.ignored.file
        self._has_directories = storage.store_has_directories(table.definition.location)
        self._partitions: list[tuple[str]] = []
        self._shown_by_files: list[tuple[str]] = []
        self._files: list[FileRow] = []
        self._last_directory: str | None = None
        self._last_judged = ("", layout.judge("").place)
        self._seen_partitions = 0
        self._seen_files = 0
        self._time_left = TimeLeft()
        self._expected: int | None = None
        self._parts: int | None = None
        self._seen_parts = 0
        self._logs: set[str] = set()
        self._named_as_directories: list[ListedFile] = []
        self.has_relocated_data = False
        """Whether relocating overwrites have written directories below the location; set by ``observe``."""

    def observe(self, *, selective: bool) -> None:
        """List the tree. Failures of single directories are recorded, a failure of the root raises.

        Raises:
            LocationNotFoundError: The table's location does not exist.
            StorageError: The table's location cannot be listed, or an object with its name hides it.
        """
        root = self._table.definition.location
        depth = max(1, len(self._layout.keys))
        self._expected = None if selective else self._table.totals.partitions or None
        if self._expected is None and depth > 1:
            self._parts = self._count_parts(root)
        listing = list_tree(self._storage, root, descend=self._descend, depth_hint=depth, selective=selective)
        take_file, take_directory = self._take_file, self._take_directory
        try:
            for number, event in enumerate(listing, 1):
                if isinstance(event, ListedFile):
                    take_file(event)
                elif isinstance(event, ListedDirectory):
                    take_directory(event.directory)
                elif isinstance(event, ListedOther):
                    self._take_other(event)
                else:
                    self._take_failure(event)
                if number % _BUFFER_ROWS == 0:
                    self._flush()
        finally:
            listing.close()
        if not self._layout.keys and self._has_directories:
            self._partitions.append(("",))
        warnings = ((log, log_warning(self._storage, root, log)) for log in sorted(self._logs))
        rows = ((log, "", None, None, warning) for log, warning in warnings if warning is not None)
        self._scratch.insert("warned", rows)
        self._flush()
        self._look_for_hidden()

    def _look_for_hidden(self) -> None:
        """Find objects on S3 that have the name of a directory and so hide it; record these directories as failures.

        It takes a request for each such object.

        Raises:
            StorageError: The object has the name of the table's location.
        """
        root = self._table.definition.location
        for event in self._named_as_directories:
            path = _path(event)
            reason = why_hidden(self._storage, f"{root}/{path}")
            if reason is not None:
                self._scratch.insert("failures", [(path, reason)])
            else:
                self._skip(path, _ABOVE, files=1, size=event.size)
        if self._seen_files == 0 and self._table.totals.files > 0:
            error = hidden(self._storage, root)
            if error is not None:
                raise error

    def _count_parts(self, root: str) -> int | None:
        """Return the number of first-level directories, for the estimated time; None if counting them is not cheap."""
        if Location.parse(root).scheme != "file":
            return None
        try:
            names = os.listdir(Location.parse(root).path)
        except OSError:
            # Ignore the error: the listing that follows reports it.
            return None
        return sum(1 for name in names if is_storable(name) and self._judge(name).place is Place.ABOVE)

    def _left_s(self) -> float | None:
        if self._parts is not None:
            # Do not count the last directory as finished, because its listing still runs.
            return self._time_left.after(self._seen_parts - 1, self._parts)
        return self._time_left.after(self._seen_partitions, self._expected)

    def _descend(self, directory: str) -> bool:
        if self._layout.is_plain(directory) is not None:
            self._last_judged = (directory, Place.PARTITION)
            return True
        if not is_storable(directory):
            self._skip(printable(directory), NOT_TEXT)
            return False
        verdict = self._judge(directory)
        self._last_judged = (directory, verdict.place)
        if directory == DATA:
            self.has_relocated_data = True
        elif is_log(directory):
            self._logs.add(directory)
        if verdict.place is Place.NONCONFORMING:
            self._skip(directory, verdict.reason)
        return verdict.place in (Place.ABOVE, Place.PARTITION)

    def _take_file(self, event: ListedFile) -> None:
        directory, name = event.directory, event.name
        if self._ignores(name):
            return
        if not is_storable(name):
            self._skip(printable(_path(event)), NOT_TEXT, files=1, size=event.size)
            return
        place = self._place_of(directory)
        if not name:
            if place in (Place.PARTITION, Place.ABOVE):
                self._skip(_path(event), MARKER, files=1, size=event.size)
        elif place is Place.PARTITION:
            self._files.append((directory, name, event.size, event.modified_ms, event.etag))
            if directory != self._last_directory:
                # This listing shows no entry for a partition's directory (as on S3), so the first file makes the
                # partition known.
                (self._shown_by_files if self._has_directories else self._partitions).append((directory,))
                self._last_directory = directory
        elif place is Place.ABOVE:
            self._take_file_above(event)

    def _take_file_above(self, event: ListedFile) -> None:
        if not self._has_directories and self._judge(_path(event)).place in (Place.PARTITION, Place.ABOVE):
            self._named_as_directories.append(event)
            return
        if names_other_format(event.name, self._table.definition.format):
            # Report a file such as README.md beside the data as a warning. As a skipped path it would stop a strict
            # repair.
            row = (_path(event), "", 1, event.size, f"{_ABOVE}, and its name is that of another format")
            self._scratch.insert("warned", [row])
        else:
            self._skip(_path(event), _ABOVE, files=1, size=event.size)

    def _take_other(self, event: ListedOther) -> None:
        if not self._ignores(event.name) and self._place_of(event.directory) in (Place.PARTITION, Place.ABOVE):
            self._skip(_path(event), event.reason, files=1, size=event.size)

    def _take_directory(self, directory: str) -> None:
        place = self._place_of(directory)
        if place is Place.PARTITION:
            self._partitions.append((directory,))
            self._last_directory = directory
        elif "/" not in directory and place is Place.ABOVE:
            self._seen_parts += 1

    def _place_of(self, directory: str) -> Place:
        # Fast path: the directory is usually the one that was judged last, for its own entry or its previous file.
        last = self._last_judged
        if last[0] != directory:
            last = self._last_judged = (directory, self._judge(directory).place)
        return last[1]

    def _take_failure(self, failure: ListingFailure) -> None:
        row = (printable(failure.directory), failure.error.message)
        self._scratch.insert("failures", [row])

    def _skip(self, path: str, reason: str, *, files: int | None = None, size: int | None = None) -> None:
        """Report a path as skipped. The files of a directory are unknown (None), because it is not listed."""
        self._scratch.insert("skipped", [(path, "", files, size, reason)])

    def _flush(self) -> None:
        self._seen_files += len(self._files)
        self._seen_partitions += len(self._partitions)
        self._listed.partitions(self._partitions)
        self._listed.shown_by_files(self._shown_by_files)
        self._listed.files(self._files)
        for rows in (self._partitions, self._shown_by_files, self._files):
            rows.clear()
        left_s = self._left_s()
        self._progress(RepairProgress("listing", self._seen_partitions, self._seen_files, left_s=left_s))


def _path(event: ListedFile | ListedOther) -> str:
    return f"{event.directory}/{event.name}" if event.directory else event.name


def observe_index(index: Index, table: Table, predicate: Predicate | None, indexed: Everything, *, files: bool) -> None:
    """Pass the registered partitions (and, on request, files) at the table's version to the comparison."""
    for batch in index.partitions.unordered(table, predicate, OF_PARTITIONS):
        indexed.partitions(rows_of(batch, OF_PARTITIONS))
    for batch in index.files.known(table, predicate) if files else ():
        indexed.files(rows_of(batch, OF_FILES))


def rows_of(batch: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the rows of some columns of a batch."""
    return list(zip(*(batch.column(name).to_pylist() for name in columns), strict=True))


def report_taken(index: Index, table: Table, scratch: Scratch) -> None:
    """Report directories that are the location of another partition, and exclude them from the comparison."""
    root = f"{table.definition.location}/"
    # A partition that is dropped, or gets a new location, gives up its directory: another partition may have it now.
    ended = {name for (name,) in scratch.rows("SELECT name FROM ended")}
    moved = dict(scratch.rows("SELECT name, location FROM places"))
    located = {name: moved.get(name, at) for name, at in index.partitions.located(table).items() if name not in ended}
    taken = ((at[len(root) :], name) for name, at in located.items() if at.startswith(root))
    scratch.insert("taken", taken)
    new = (
        "FROM taken WHERE directory NOT IN (SELECT name FROM indexed_partitions)"
        " AND directory IN (SELECT name FROM listed_partitions)"
    )
    scratch.execute(
        "INSERT OR IGNORE INTO skipped"
        f" SELECT directory, directory, NULL, NULL, 'the directory is that of the partition ' || partition {new}"
    )
    scratch.leave_out(f"SELECT directory {new}", "listed")
