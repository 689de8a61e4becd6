"""Backups of an index, and the recovery after it was restored from a backup."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.identity.counter_file import CounterUnknownError
from catalog_ext.identity.record import METASTORE
from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexRestoredError,
    IndexUnavailableError,
    InvalidInputError,
    LocationNotFoundError,
    StorageError,
)
from catalog_ext.metastore.index.database.urls import index_file
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import is_same_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.repair.report import RepairReport
    from catalog_ext.repair.table_repair import TableRepair

_AT_ONCE = 1000
"""The number of files that are checked together: an overwrite may have a million files to delete."""

ENDED, LEFT, DISCARDED, REPAIRED, FAILED = "ended", "left", "discarded", "repaired", "failed"
CURRENT, BEHIND, UNKNOWN = "current", "behind", "unknown"
FOUND = "found"
_CHANGES = {"add": ("to add", "added"), "drop": ("to drop", "dropped"), "change": ("to change", "changed")}
_FOUND = (
    "no table of the index lies here: it was made after the backup, or its files were left. To have its rows: "
    "catalog-ext register"
)
_LEFT = (
    "a committed write was to delete it, and a repair registers it. It may be the only copy of its rows: delete it "
    "only where newer files of its partition have them"
)


class RestoredEntry(NamedTuple):
    """One action of ``restored``, or in a preview an action that it would take.

    Attributes:
        action: ``ended`` (a transaction or a DROP), ``left`` (a file), ``discarded`` (messages), ``repaired`` or
            ``failed`` (a table), ``found`` (a directory of a namespace without a table); first in a preview ``behind``,
            ``current`` or ``unknown`` (the index).
        subject: The table, the file, the directory or the index.
        detail: A text with details.
    """

    action: str
    subject: str
    detail: str


class Restoring:
    """Backs up an index, and makes it usable again after it was restored from a backup."""

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair

    def restored(self, *, dry_run: bool = False) -> tuple[RestoredEntry, ...]:
        """End the unfinished work of a restored index, begin a new incarnation, and repair its tables.

        No file is touched. Every unfinished transaction, every DROP and every message for the metastore is given up:
        their outcome is visible in the store and the metastore. Run ``drift`` afterwards to compare the metastore.

        Args:
            dry_run: Preview: report what would be done and change nothing.

        Raises:
            StorageError: The counter in the warehouse cannot be read.
            IndexUnavailableError: The database is gone or locked.
        """
        counter, index = self._context.counter, self._context.open_index
        with counter.suspended():
            position, newest_table = counter.next_incarnation()
            entries = [self._state(), *self._unfinished()] if dry_run else [*self._unfinished()]
            if not dry_run:
                index.restoration.begin(position, newest_table)
                fault_point("restored.begun")
                counter.advance()
                fault_point("restored.written")
            entries.extend(self._repaired(table, dry_run=dry_run) for table in self._tables())
            if not dry_run:
                fault_point("restored.repaired")
                index.restoration.end_restoring()
                counter.look_whether_restored()
        return tuple(entries)

    def _state(self) -> RestoredEntry:
        """Return an entry that says whether the index is restored, that is, older than the counter in its warehouse."""
        try:
            current, found = self._context.counter.state()
        except CounterUnknownError as error:
            current, found = None, error.message
        action = UNKNOWN if current is None else CURRENT if current else BEHIND
        return RestoredEntry(action, self._context.index.url, found)

    def _unfinished(self) -> Iterator[RestoredEntry]:
        index = self._context.index
        for transaction in sorted(index.transactions.all(states=IN_FLIGHT), key=lambda t: t.began_at_ms):
            detail = f"{transaction.operation} {transaction.transaction_id}, {transaction.state}"
            yield RestoredEntry(ENDED, transaction.table, detail)
            if transaction.version is not None:
                yield from self._left(transaction)
        for dropped in index.dropped_tables.undeleted():
            yield RestoredEntry(ENDED, dropped.name, f"DROP TABLE; its directory stays: {dropped.location}")
        pending = index.outbox.count()
        if pending:
            yield RestoredEntry(DISCARDED, "", f"{counted(pending, 'change')} for the metastore; drift compares it")
        if METASTORE not in index.properties.load():
            # Without a metastore, list directories that may belong to lost tables. With one, ``drift`` shows such
            # tables.
            yield from self._without_table()

    def _without_table(self) -> Iterator[RestoredEntry]:
        """Yield directories in namespaces that belong to no table: their tables may be newer than the backup."""
        index, warehouse = self._context.index, self._context.settings.warehouse
        named = [index.namespaces.load(name).location or f"{warehouse}/{name}.db" for name in index.namespaces.all()]
        known = {f"{place.rstrip('/')}/" for place in (*named, *(place for _, place in index.tables.locations()))}
        # A table may lie in a subdirectory of its namespace's directory, and a namespace in that of another namespace,
        # so skip all directories above known ones.
        around = {place[: end + 1] for place in known for end, character in enumerate(place) if character == "/"}
        for place in map(Location.parse, named):
            try:
                entries = self._context.storage.list_directory(place)
            except LocationNotFoundError:
                continue
            except StorageError as error:
                yield RestoredEntry(FAILED, str(place), error.message)
                continue
            for entry in sorted(entries, key=lambda one: str(one.location)):
                hidden = entry.kind is not EntryKind.DIRECTORY or is_hidden(entry.location.name)
                if not hidden and f"{entry.location}/" not in around:
                    yield RestoredEntry(FOUND, str(entry.location), _FOUND)

    def _left(self, transaction: Transaction) -> Iterator[RestoredEntry]:
        """Yield the unchanged files that a committed transaction should have deleted and has not."""
        removals = (r for r in self._context.index.deletions.of(transaction.transaction_id) if not r.is_directory)
        for some in batched(removals, _AT_ONCE):
            entries = self._context.storage.stat_many([Location.parse(removal.path) for removal in some])
            for removal, entry in zip(some, entries, strict=True):
                if entry is not None and is_same_file(entry, removal):
                    yield RestoredEntry(LEFT, removal.path, _LEFT)

    def _tables(self) -> Iterator[TableIdentifier]:
        index = self._context.index
        for namespace in index.namespaces.all():
            for name in index.tables.all(namespace):
                yield TableIdentifier(namespace, name)

    def _repaired(self, table: TableIdentifier, *, dry_run: bool) -> RestoredEntry:
        try:
            report = self._repair.repair_partitions(str(table), dry_run=dry_run)
        except IndexUnavailableError:
            raise
        except CatalogExtError as error:
            gone = f" If it was dropped since: catalog-ext unregister {table}"
            why = error.message + (gone if isinstance(error, LocationNotFoundError) else "")
            return RestoredEntry(FAILED, str(table), why)
        return RestoredEntry(REPAIRED, str(table), _changes(report))

    def backup(self, file: str) -> str:
        """Create a consistent copy of the SQLite index, which only its owner can read; return its path.

        The index may be in use. Its change counter is raised after the copy, so that the copy, when opened, is
        recognized as old.

        Args:
            file: The path of the copy, which must not exist yet.

        Raises:
            InvalidInputError: The index is not a SQLite file, or the file exists already, or cannot be created.
            IndexUnavailableError: The index is locked.
        """
        source, backup = index_file(self._context.settings.index), Path(file).absolute()
        if source is None:
            raise InvalidInputError(
                f"The index {self._context.index.url} is no file of SQLite: back it up with its database's own tool "
                "(pg_dump, mariadb-dump).",
                {"index": self._context.index.url},
            )
        self._context.require_open()
        try:
            os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise InvalidInputError(
                f"The backup {backup} cannot be written: {_why_unwritable(backup, error)}", {"file": str(backup)}
            ) from error
        try:
            with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(backup)) as here:
                # ``backup`` keeps the journal mode (write-ahead log). In another mode, a process that reads the
                # restored file and records in it that it is old would wait for its own read lock.
                there.backup(here)
        except sqlite3.Error as error:
            backup.unlink()
            raise IndexUnavailableError(
                f"The index {self._context.index.url} was not backed up to {backup}: {error}. Run the command again.",
                {"index": self._context.index.url, "file": str(backup)},
            ) from error
        # The counter of a restored index cannot be raised. That is no problem: its copy is recognized as old too.
        with suppress(IndexRestoredError):
            self._context.index.incarnations.before_deleting()
        return str(backup)


def _why_unwritable(file: Path, error: OSError) -> str:
    if isinstance(error, FileExistsError):
        return "it exists, and a backup overwrites no file. Name a new file."
    if not file.parent.is_dir():
        return f"the folder {file.parent} does not exist. Create it, or name a file in another folder."
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return f"you may not create files in the folder {file.parent}. Name a file in another folder."
    return f"{error.strerror}. Name a file in another folder."


def _changes(report: RepairReport) -> str:
    """Return the changes of a table's repair, or in a preview the changes that it would make, in one line."""
    found = []
    for action, words in _CHANGES.items():
        counts = report.counts(action)
        if counts.partitions:
            partitions, files = counted(counts.partitions, "partition"), counted(counts.files or 0, "file")
            found.append(f"{words[0 if report.dry_run else 1]}: {partitions} with {files}")
    skipped = [f"skipped: {counted(len(report.skipped), 'path')}"] if report.skipped else []
    refused = [f"refused: {entry.reason}" for entry in report.refused]
    return "; ".join([*found, *skipped, *refused]) or "agrees with the store"
