"""Backups of an index, and what an index does after it was put back to an earlier time."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.errors import CatalogExtError, IndexUnavailableError, InvalidInputError
from catalog_ext.metastore.index.database.urls import index_file
from catalog_ext.metastore.index.write.transactions import IN_FLIGHT
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.identity import is_same_file
from catalog_ext.metastore_sync.counter_file import CounterUnknownError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.repair.table_repair import TableRepair

ENDED, LEFT, DISCARDED, REPAIRED, FAILED = "ended", "left", "discarded", "repaired", "failed"
CURRENT, BEHIND, UNKNOWN = "current", "behind", "unknown"
_LEFT = (
    "a committed write was to delete it, and a repair registers it. It may be the only copy of its rows: delete it "
    "only where newer files of its partition have them"
)


class RestoredEntry(NamedTuple):
    """One thing that ``restored`` did, or in a preview would do.

    Attributes:
        action: ``ended`` (a transaction or a DROP), ``left`` (a file), ``discarded`` (messages), ``repaired`` or
            ``failed`` (a table); first in a preview ``behind``, ``current`` or ``unknown`` (the index).
        subject: The table, the file or the index.
        detail: What was found.
    """

    action: str
    subject: str
    detail: str


class Restoring:
    """Backs an index up, and has it go on after it was put back.

    Args:
        context: What the parts share.
        repair: Compares tables with the store.
    """

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair

    def restored(self, *, dry_run: bool = False) -> tuple[RestoredEntry, ...]:
        """End what an index that was put back has unfinished, begin a new incarnation, and repair its tables.

        No file is touched. Every unfinished transaction, every DROP and every message for the metastore is given up:
        what became of it, the store and the metastore know. ``drift`` compares the metastore afterwards.

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
                index.begin_incarnation(position, newest_table)
                fault_point("restored.begun")
                counter.advance()
                fault_point("restored.written")
            entries.extend(self._repaired(table, dry_run=dry_run) for table in self._tables())
            if not dry_run:
                fault_point("restored.repaired")
                index.end_restoring()
                counter.look_whether_restored()
        return tuple(entries)

    def _state(self) -> RestoredEntry:
        """Return whether the index is older than what it once wrote."""
        try:
            current, found = self._context.counter.state()
        except CounterUnknownError as error:
            current, found = None, error.message
        action = UNKNOWN if current is None else CURRENT if current else BEHIND
        return RestoredEntry(action, self._context.index.url, found)

    def _unfinished(self) -> Iterator[RestoredEntry]:
        index = self._context.index
        for transaction in sorted(index.list_transactions(states=IN_FLIGHT), key=lambda t: t.began_at_ms):
            detail = f"{transaction.operation} {transaction.transaction_id}, {transaction.state}"
            yield RestoredEntry(ENDED, transaction.table, detail)
            if transaction.version is not None:
                yield from self._left(transaction)
        for dropped in index.undeleted_tables():
            yield RestoredEntry(ENDED, dropped.name, f"DROP TABLE; its directory stays: {dropped.location}")
        pending = index.count_deliveries()
        if pending:
            yield RestoredEntry(DISCARDED, "", f"{counted(pending, 'change')} for the metastore; drift compares it")

    def _left(self, transaction: Transaction) -> Iterator[RestoredEntry]:
        """Yield the files that a committed transaction was to delete, and that are there as they were."""
        removals = [r for r in self._context.index.removals(transaction.transaction_id) if not r.is_directory]
        places = [Location.parse(removal.path) for removal in removals]
        for removal, entry in zip(removals, self._context.storage.stat_many(places), strict=True):
            if entry is not None and is_same_file(entry, removal):
                yield RestoredEntry(LEFT, removal.path, _LEFT)

    def _tables(self) -> Iterator[TableIdentifier]:
        index = self._context.index
        for namespace in index.list_namespaces():
            for name in index.list_tables(namespace):
                yield TableIdentifier(namespace, name)

    def _repaired(self, table: TableIdentifier, *, dry_run: bool) -> RestoredEntry:
        try:
            report = self._repair.repair_partitions(str(table), dry_run=dry_run)
        except IndexUnavailableError:
            raise
        except CatalogExtError as error:
            return RestoredEntry(FAILED, str(table), error.message)
        refused = "".join(f"; refused: {entry.reason}" for entry in report.refused)
        return RestoredEntry(REPAIRED, str(table), str(report).split("\n")[0] + refused)

    def backup(self, file: str) -> str:
        """Return the path of a new, consistent copy of the SQLite index, which only its owner can read.

        The index may be in use. Its counter is raised afterwards, so that the copy knows that it is old when it is
        opened.

        Args:
            file: Where the copy goes; nothing is there yet.

        Raises:
            InvalidInputError: The index is no file of SQLite, or the file is there already, or cannot be made.
            IndexUnavailableError: The index is locked.
        """
        source, target = index_file(self._context.settings.index), Path(file).absolute()
        if source is None:
            raise InvalidInputError(
                f"The index {self._context.index.url} is no file of SQLite: back it up with its database's own tool "
                "(pg_dump, mariadb-dump).",
                {"index": self._context.index.url},
            )
        self._context.require_open()
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise InvalidInputError(
                f"The backup {target} cannot be made: {error.strerror}. Name a file that is not there, in a folder "
                "that is.",
                {"file": str(target)},
            ) from error
        try:
            with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(target)) as here:
                there.backup(here)
                here.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            target.unlink()
            raise IndexUnavailableError(
                f"The index {self._context.index.url} was not backed up to {target}: {error}. Run the command again.",
                {"index": self._context.index.url, "file": str(target)},
            ) from error
        self._context.index.before_deleting()
        return str(target)
