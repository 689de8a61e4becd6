"""Maintenance of writes to tables: history, recovery, vacuum and status."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from catalog_ext.conf import write_keys
from catalog_ext.conf.properties import check_one_directory
from catalog_ext.conf.setting import seconds_of
from catalog_ext.display import Rows
from catalog_ext.identity.record import METASTORE
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexRestoredError,
    IndexUnavailableError,
    InvalidInputError,
    MetastoreError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.runtime.users import signed
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumEntry, VacuumReport
from catalog_ext.metastore_sync.named_places import NamedPlaces
from catalog_ext.writes.status import StatusEntry, not_taken_entries, status_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.metastore.transactions.reports import DiscardReport, RecoveryReport, ReleaseReport

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE = 100_000
"""The most rows that one background run removes, which take a second or two of the database's time."""

_SAFE_S = 3600.0
"""The time, in seconds, for which a running statement may need files that it has planned with. Younger files are
removed only with an explicit option."""


class WriteMaintenance:
    """Shows the state of writes to tables, recovers dead writes, and removes leftovers."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def history(self, table: str) -> Rows[TableVersion]:
        """Return the table's commits, newest first.

        Raises:
            TableNotFoundError: There is no table of that name.
        """
        return Rows("commits", self._context.index.tables.history(self._context.identify(table)))

    def list_transactions(self, table: str) -> Rows[Transaction]:
        """Return the table's transactions that `vacuum` has not removed, newest first.

        Raises:
            TableNotFoundError: There is no table of that name.
        """
        found = self._context.index.transactions.all(self._context.load_table(table).table_id)
        return Rows("transactions", found)

    def recover(
        self, table: str | None = None, *, older_than: str | float | None = None, undo: str | None = None,
        dry_run: bool = False,
    ) -> RecoveryReport:  # fmt: skip
        """Finish or undo the writes of dead owners. A write that had begun to publish its files is finished.

        Args:
            table: The table's name, also that of a table that was being created, or was dropped; None for all.
            older_than: Seconds, or text such as ``10m``, since the last heartbeat; ``0s`` if the owners are known to be
                dead. None selects writes whose lease has expired.
            undo: The id of a write to undo instead of finishing it, for example if its store permanently refuses the
                remaining steps. A committed write stays.
            dry_run: Preview: report what would be done and change nothing.

        Raises:
            TableNotFoundError: There is no table of that name, and no write to a table of that name is in flight.
            TransactionNotFoundError: There is no write with the id ``undo``.
            TransactionStateError: The write ``undo`` is committed.
            InvalidInputError: ``older_than`` is not a duration, or is given together with ``undo``.
        """
        if undo is not None:
            if table is not None or older_than is not None:
                raise InvalidInputError("recover undoes one write: give 'undo' without a table and without an age.")
            return self._context.transactions.undo(undo, dry_run=dry_run)
        age = seconds_of(older_than, "older_than")
        identifier = None if table is None else self._context.identify(table)
        return self._context.transactions.recover(identifier, age, dry_run=dry_run)

    def release_waiting(self, table: str, *, application: str | None = None, dry_run: bool = False) -> ReleaseReport:
        """Commit the files that streams hold back until their partitions are due; return a report.

        This is for queries that are not started again, for example after their checkpoints were lost. A running query
        commits its partitions itself.

        Args:
            table: The table's name.
            application: The id of one query; None for all.
            dry_run: Preview: report the waiting files and change nothing.

        Raises:
            TableNotFoundError: There is no table of that name.
            OperationNotSupportedError: The table's location has wildcards: such a table is read only, and has no
                waiting files.
            WaitingFilesMissingError: Some of the files do not exist any more: see ``discard_waiting``.
            ConflictError: An epoch of the query is being committed.
        """
        found = self._context.load_table(table)
        check_one_directory(found.definition, "release_waiting")
        return self._context.transactions.waiting.release_all(
            found, application, signed(this_process()), dry_run=dry_run
        )

    def discard_waiting(self, table: str, *, dry_run: bool = False) -> DiscardReport:
        """Give up files that streaming queries hold back and that are missing on the store; return these files.

        A query whose epochs fail with ``CATALOG_EXT_WAITING_FILES_MISSING`` can continue afterwards, without the rows
        of these files. Held-back files that exist keep waiting.

        Args:
            table: The table's name.
            dry_run: Preview: report what would be given up and change nothing.

        Raises:
            TableNotFoundError: There is no table of that name.
            OperationNotSupportedError: The table's location has wildcards: such a table is read only, and has no
                waiting files.
            LocationNotFoundError: The table's directory does not exist: nothing was given up.
            StorageError: The store refuses or does not answer.
        """
        found = self._context.load_table(table)
        check_one_directory(found.definition, "discard_waiting")
        return self._context.transactions.waiting.discard(found, dry_run=dry_run)

    def vacuum(
        self, table: str | None = None, *, retention: str | float | None = None, allow_short_retention: bool = False,
        unknown_writes: bool = False, dry_run: bool = False,
    ) -> VacuumReport:  # fmt: skip
        """Remove files and versions that are not needed any more, and leftovers of aborted writes.

        Args:
            table: The table's name; None for all tables. A table that cannot be vacuumed does not stop the others.
            retention: Seconds, or text such as ``7d``: younger files and versions stay. None is the table's
                ``vacuum.retention``.
            allow_short_retention: Allow a retention below an hour and below the table's own: only safe if no running
                query or write needs the removed files.
            unknown_writes: Also remove staged files of writes that this index does not know, and relocated files that
                no version names: only safe if no other index has a table at the location. Otherwise they are reported
                as skipped.
            dry_run: Preview: report what would be removed and change nothing.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidInputError: ``retention`` is not a duration, or too short.
            StorageError: The store refuses or does not answer; removed files stay removed.
            CatalogExtError: The index or the store cannot be read. Files stay, and are reported, if the metastore still
                has partitions at them, or cannot be asked.
        """
        age = seconds_of(retention, "retention")
        tables = list(self._tables()) if table is None else [self._context.load_table(table)]
        # Check all retentions first, so that an invalid one is refused before any table is vacuumed.
        ages = [self._retention(each, age, free=allow_short_retention or dry_run) for each in tables]
        vacuum = self._vacuumed if table is None else self._vacuum
        refused = tuple(self._refused(tables, age, free=allow_short_retention)) if dry_run else ()
        reports = [vacuum(each, age_s, unknown_writes, dry_run) for each, age_s in zip(tables, ages, strict=True)]
        entries = (*refused, *(entry for report in reports for entry in report.entries))
        return VacuumReport(None if table is None else reports[0].table, entries, dry_run)

    def _refused(self, tables: Sequence[Table], age: float | None, *, free: bool) -> Iterator[VacuumEntry]:
        """Yield an entry for each reason why a vacuum that is no preview would be refused."""
        for each in tables:
            try:
                self._retention(each, age, free=free)
            except InvalidInputError as error:
                yield _refusal(each, error)
        self._context.counter.look_whether_restored()
        if self._context.counter.behind is not None:
            yield from (_refusal(each, self._context.counter.behind) for each in tables)

    def _tables(self) -> Iterator[Table]:
        for namespace in self._context.index.namespaces.all():
            for name in self._context.index.tables.all(namespace):
                table = self._context.find_table(TableIdentifier(namespace, name))
                if table is not None:  # None: dropped meanwhile
                    yield table

    def _vacuumed(self, table: Table, age_s: float, unknown_writes: bool, dry_run: bool) -> VacuumReport:
        """Vacuum one of several tables. An error becomes an entry of the report, and does not stop the others."""
        name = str(table.identifier)
        try:
            return self._vacuum(table, age_s, unknown_writes, dry_run)
        except TableNotFoundError:
            return VacuumReport(name, (), dry_run)
        except (IndexUnavailableError, IndexRestoredError):
            raise
        except CatalogExtError as error:
            logger.warning("Table %s could not be vacuumed: %s", name, error.message)
            failed = VacuumEntry(VacuumAction.FAILED, table.definition.location, 0, error.message, name)
            return VacuumReport(name, (failed,), dry_run)

    def _vacuum(self, table: Table, age_s: float, unknown_writes: bool, dry_run: bool) -> VacuumReport:
        return self._context.transactions.vacuum(
            table, age_s, named=self._named(table), unknown_writes=unknown_writes, dry_run=dry_run
        )

    def _named(self, table: Table) -> StillNamed | None:
        """Return a function that finds directories at which the metastore has partitions; None without a metastore."""
        connection, own = self._context.metastore, self._context.index.properties.load().get(METASTORE)
        kept = table.definition.partition_columns and unrepresentable_reason(table.definition) is None
        if not kept or not (connection.enabled or own):
            return None

        places = NamedPlaces(connection.client, table)

        def ask(names: Sequence[str], directories: Sequence[str]) -> Sequence[str]:
            if not connection.enabled:
                raise MetastoreError(
                    f"Files of table {table.identifier} that are to be deleted may still be read by Hive engines: the "
                    f"index belongs to the metastore {own}, which this session does without. Run vacuum with it.",
                    {"table": str(table.identifier), "metastore": own or ""},
                )
            return places(names, directories)

        return ask

    def _retention(self, table: Table, age: float | None, *, free: bool) -> float:
        own = write_keys.VACUUM_RETENTION.read(table.definition.properties, self._context.settings.conf)
        if age is None:
            return own
        if not free and age < min(own, _SAFE_S):
            raise InvalidInputError(
                f"Vacuum of table {table.identifier} with the retention {age:g} s would remove what queries and writes "
                "under way may need. Give 1h or more, or, when nothing else uses the table: --force on the command "
                "line, allow_short_retention => true in CALL, allow_short_retention=True in Python.",
                {"table": str(table.identifier), "retention_s": f"{age:g}"},
            )
        return age

    def expire_versions(self, max_rows: int = EXPIRED_AT_ONCE) -> int:
        """Remove old versions that have no files to delete; return the number of removed rows of the index.

        A version is old if its age is above the table's ``vacuum.retention``. Versions from the first relocating
        overwrite on stay until ``vacuum`` has deleted the files that it replaced, and aborted transactions until it has
        searched for their leftovers.

        Args:
            max_rows: The approximate limit on removed rows of the index; the next call continues.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        index, removed = self._context.index, 0
        for table in self._tables():
            before_ms = index.now_ms() - round(self._retention(table, None, free=True) * 1000)
            version = index.history.version_at(table.table_id, before_ms)
            kept = min(index.ended_files.relocations(table.table_id), default=version + 1)
            index.repairs.expire(table.table_id, before_ms)
            removed += index.versions.expire(
                table.table_id, min(version, kept - 1), max_rows=max_rows - removed, aborted=False
            )
            if removed >= max_rows:
                break
        if removed:
            logger.info("Old versions were forgotten: %d rows of the index", removed)
        return removed

    def status(self, table: str | None = None) -> Rows[StatusEntry]:
        """Return the work in flight: writes, partitions before their partition commit, pending metastore changes.

        For all tables, if the metastore is followed, the metastore's tables that the index has not imported are
        included.

        Raises:
            TableNotFoundError: There is no table of that name.
        """
        index = self._context.index
        if table is not None:
            return Rows("in flight", status_entries(index, self._context.load_table(table)))
        entries = chain(status_entries(index, None), not_taken_entries(index, self._context.metastore))
        return Rows("in flight", entries)


def _refusal(table: Table, error: CatalogExtError) -> VacuumEntry:
    reason = f"the run would be refused: {error.message}"
    return VacuumEntry(VacuumAction.REFUSED, table.definition.location, 0, reason, str(table.identifier))
