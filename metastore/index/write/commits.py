"""The steps of a commit that change the index, each in one transaction of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import IndexDatabaseError
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.tables import Tables
from catalog_ext.metastore.index.write import apply_changes, deferred_deletes, reservations
from catalog_ext.metastore.index.write import transaction_rows as rows
from catalog_ext.metastore.index.write.applying import Applying
from catalog_ext.metastore.model.changes import Commit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.staged_files import StagedFile, StoredFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.planner_statistics import PlannerStatistics
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.model.changes import Change, Summary
    from catalog_ext.metastore.model.tables import Table, TableDefinition

    Delivers = Callable[[TableDefinition], bool]


class Commits:
    """The steps of a commit that change the index, each in one transaction of the database."""

    def __init__(self, database: Database, statistics: PlannerStatistics) -> None:
        self._database = database
        self._statistics = statistics

    def reserve(
        self,
        transaction_id: str,
        plan: WritePlan,
        *,
        staged: int | None = None,
        brought: Sequence[StagedFile] = (),
        known: Transaction | None = None,
    ) -> Transaction | ApplicationVersion:
        """Claim what the transaction touches and move it from open to reserved; return it as it then is.

        Where the batch is committed already the answer says by which transaction, and nothing was changed. The plan
        that is returned is the very object that was given if this call has reserved it, and no files but those that it
        brings are recorded.

        Args:
            transaction_id: The transaction's.
            plan: Checked.
            staged: How many files are recorded, as its writer counts them; None where the writer has not counted.
            brought: Staged files that are not recorded yet, and are with the reservation.
            known: The transaction as its caller has loaded it, so that it is read once.

        Raises:
            ConflictError: Another transaction, a repair or a partition DDL was first.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The table to be created is there.
            InvalidInputError: A file is staged twice, or a partition does not fit the table.
            StagedFileMissingError: The index remembers another number of recorded files.
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It was undone.
        """
        return self._database.write(
            lambda connection: reservations.Reservation(
                connection, known or rows.load_within(connection, transaction_id), plan, staged, brought
            ).run()
        )

    def apply(
        self,
        transaction_id: str,
        *,
        deliver: bool | Delivers,
        stored: Mapping[tuple[str, str], StoredFile] | None = None,
        left: Sequence[Removal] = (),
        deliver_source: bool = False,
        tidied: bool = False,
        known: Transaction | None = None,
        staged: Sequence[StagedFile] | None = None,
    ) -> Transaction:
        """Return the transaction, committed now or before, with its outcome; its changes become visible together.

        Args:
            transaction_id: A reserved transaction, whose files have their final names.
            deliver: Whether to enqueue the changes for the metastore, or what says so of the table's definition.
            stored: What the store says of the files, by partition and name; the time of the commit stands in for
                times that it was not asked for.
            left: What is to be deleted with what the commit replaces.
            deliver_source: Whether to enqueue the changes of the table that an exchange takes partitions from.
            tidied: Whether nothing but what it replaces is left to be cleaned up: finished, if it replaces nothing.
            known: The transaction as its caller has loaded it since it was reserved, so that its plan is read once.
            staged: All files that it has staged, of which none waits, where its caller has them.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not reserved: it was not yet, or was undone.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The name of the table to be created was taken meanwhile.
            ConflictError: The table to be replaced was replaced meanwhile.
        """
        done = self._database.write(
            lambda connection: Applying(connection, transaction_id, stored or {}, known, staged).run(
                deliver=deliver, deliver_source=deliver_source, left=left, tidied=tidied
            )
        )
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
    ) -> Commit:
        """Return what one transaction did, which makes the changes visible together; nothing to do makes no version.

        Args:
            table_id: The table's number.
            changes: In any order; a partition may be dropped and added, not otherwise be named twice.
            operation: What makes the commit, for the history.
            summary: Kept in the history as JSON.
            deliver: Whether to enqueue the changes for the metastore.
            base: The table as it was when the changes were found; None where nothing matters but what they presume.
            listed_at_ms: A time before the store was listed for files that are added, by the database's clock
                (``now_ms``): what statements of other tables may have deleted since is not registered. None where the
                store was not listed.

        Raises:
            TableNotFoundError: The table is gone.
            ConflictError: A partition or file is there already, or no longer; or after ``base`` a partition changed, or
                the table's location or partition columns. Nothing was changed.
            DeletedFilesError: A file that is added is being deleted, or may have been since it was listed. Nothing was
                changed.
            InvalidInputError: A name does not fit the table, or the changes contradict each other.
        """
        kept = apply_changes.worth_committing(changes)
        if not kept:
            return Commit(version=Tables(self._database).load_by_id(table_id).version)

        def work(connection: sa.Connection, *, presume_new: bool) -> Commit:
            row = table_rows.raise_version(connection, table_id)
            deferred_deletes.require_complete(table_id, row["floor_version"])
            return apply_changes.commit(
                connection, row, kept, operation=operation, summary=summary or {}, deliver=deliver, base=base,
                listed_at_ms=listed_at_ms, presume_new=presume_new,
            )  # fmt: skip

        presume_new = apply_changes.are_many_new(kept)
        try:
            outcome = self._database.write(lambda connection: work(connection, presume_new=presume_new))
        except IndexDatabaseError as error:
            if not presume_new or error.__cause__ is None or not is_duplicate(error.__cause__):
                raise
            # One of them is there: the second time each is looked for, which says which one.
            outcome = self._database.write(lambda connection: work(connection, presume_new=False))
        self._statistics.note(outcome.partitions_added + outcome.partitions_changed + outcome.files_added)
        return outcome
