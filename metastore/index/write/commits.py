"""The steps of a commit that change the index, each in one transaction of the database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import IndexDatabaseError
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.tables import Tables
from catalog_ext.metastore.index.write import apply_changes, deferred_deletes, reservations
from catalog_ext.metastore.index.write.applying import Applying
from catalog_ext.metastore.model.changes import AppliedChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.planner_statistics import PlannerStatistics
    from catalog_ext.metastore.index.write.applying import Delivers
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.model.changes import Change, Summary
    from catalog_ext.metastore.model.tables import Table


class Commits:
    """The steps of a commit that change the index, each in one transaction of the database."""

    def __init__(self, database: Database, statistics: PlannerStatistics) -> None:
        self._database = database
        self._statistics = statistics

    def reserve(self, commit: Commit) -> Transaction | ApplicationVersion:
        """Claim what the transaction touches and move it from open to reserved; return it as it then is.

        Where the batch is committed already the answer says by which transaction, and nothing was changed. The plan of
        the answer is the very object that was given if this call has reserved the transaction, and the index has
        recorded no other files.

        Args:
            commit: Its plan is checked. ``all_files`` are recorded with the reservation.

        Raises:
            ConflictError: Another transaction, a repair or a partition DDL was first.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The table to be created is there.
            InvalidInputError: A file is staged twice, or a partition does not fit the table.
            StagedFileMissingError: The index remembers another number of recorded files.
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It was undone.
        """
        return self._database.write(lambda connection: reservations.Reservation(connection, commit).run())

    def apply(self, commit: Commit, *, deliver: bool | Delivers) -> Transaction:
        """Return the transaction, committed now or before, with its outcome; its changes become visible together.

        Args:
            commit: Its files have their final names. The time of the commit stands in for the times of files that the
                store was not asked for.
            deliver: Whether to enqueue the changes for the metastore, or what says so of a table's definition.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not reserved: it was not yet, or was undone.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The name of the table to be created was taken meanwhile.
            ConflictError: The table to be replaced was replaced meanwhile.
        """
        done = self._database.write(lambda connection: Applying(connection, commit, deliver).run())
        if done.plan.definition is not None:
            Tables(self._database).remove_dropped_rows()
        outcome = done.outcome
        if outcome is not None:
            self._statistics.note(outcome.files_added + outcome.partitions_added + outcome.partitions_changed)
        if done.table_id is not None and done.version is not None:
            self._database.note_version(done.table_id, done.version)
        return done

    def apply_changes(
        self,
        table_id: int,
        changes: Sequence[Change],
        *,
        operation: str,
        summary: Summary | None = None,
        deliver: bool,
        base: Table | None = None,
        listed_at_ms: int | None = None,
    ) -> AppliedChanges:
        """Return what one transaction did, which makes the changes visible together; nothing to do makes no version.

        Args:
            table_id: The table's number.
            changes: In any order; a partition may be dropped and added, not otherwise be named twice.
            operation: What makes the commit, for the history.
            summary: Kept in the history as JSON.
            deliver: Whether to enqueue the changes for the metastore.
            base: The table as it was when the changes were found; None where only what they presume matters.
            listed_at_ms: A time before the store was listed, by the database's clock (``now_ms``): files that
                statements may have deleted since are not registered. None where the store was not listed.

        Raises:
            TableNotFoundError: The table is gone.
            ConflictError: A partition or file is there already, or no longer; or after ``base`` a partition changed, or
                the table's location or partition columns. Nothing was changed.
            DeletedFilesError: An added file is being deleted, or may have been since the listing. Nothing was changed.
            InvalidInputError: A name does not fit, or the changes contradict each other.
        """
        kept = apply_changes.worth_committing(changes)
        if not kept:
            return AppliedChanges(version=Tables(self._database).load_by_id(table_id).version)

        def work(connection: sa.Connection, *, presume_new: bool) -> AppliedChanges:
            row = table_rows.raise_version(connection, table_id)
            deferred_deletes.require_complete(table_id, row.table.floor)
            return apply_changes.commit(
                connection, row, kept, operation=operation, summary=summary or {}, deliver=deliver, base=base,
                listed_at_ms=listed_at_ms, presume_new=presume_new,
            )  # fmt: skip

        outcome = self._written(work, presume_new=apply_changes.are_many_new(kept))
        self._statistics.note(outcome.partitions_added + outcome.partitions_changed + outcome.files_added)
        return outcome

    def _written(self, work: Callable[..., AppliedChanges], *, presume_new: bool) -> AppliedChanges:
        """Return what ``work`` does in a transaction; with ``presume_new`` it does not look for rows that are there."""
        try:
            return self._database.write(partial(work, presume_new=presume_new))
        except IndexDatabaseError as error:
            if not presume_new or error.__cause__ is None or not is_duplicate(error.__cause__):
                raise
            # One of them is there. The second attempt looks for each, so that its error names it.
            return self._database.write(partial(work, presume_new=False))
