"""The steps of a commit that change the index, each in one database transaction.

A commit updates the table's row first, so the database serializes the committers of a table; everything read after that
is the state left by the previous committer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ConflictError, IndexDatabaseError, InvalidInputError
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.tables.tables import Tables
from catalog_ext.metastore.index.write import deferred_deletes, reservations
from catalog_ext.metastore.index.write.applier import Applier
from catalog_ext.metastore.index.write.applying import Applying
from catalog_ext.metastore.index.write.partition_rows import changed_after, living_files, mark_in_metastore
from catalog_ext.metastore.index.write.reservation_checks import require_registrable
from catalog_ext.metastore.index.write.version_record import record
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition, AppliedChanges, Change, DropPartition, ReplaceFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.planner_statistics import PlannerStatistics
    from catalog_ext.metastore.index.write.applying import Delivers
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table


class Commits:
    """The steps of a commit that change the index: reserve and apply, each in one database transaction."""

    def __init__(self, database: Database, statistics: PlannerStatistics) -> None:
        self._database = database
        self._statistics = statistics

    def reserve(self, commit: Commit) -> Transaction | ApplicationVersion:
        """Claim the touched partitions, move the transaction from open to reserved, and return it.

        If the same batch of a streaming application is committed already, the batch's version is returned, and nothing
        is changed. If this call reserved the transaction, and no files were recorded before, the result contains the
        given plan object itself.

        Args:
            commit: A commit with a checked plan. Its ``all_files`` are recorded with the reservation.

        Raises:
            ConflictError: Another transaction, a repair or a partition DDL was first.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The table to be created exists.
            InvalidInputError: A file is staged twice, or a partition does not fit the table.
            StagedFileMissingError: The index has another number of recorded files than the writer has staged.
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction was undone.
        """
        return self._database.write(lambda connection: reservations.Reservation(connection, commit).run())

    def apply(self, commit: Commit, *, deliver: bool | Delivers) -> Transaction:
        """Apply the commit, so that all its changes become visible at once; return the transaction with its outcome.

        A transaction that is committed already is returned unchanged.

        Args:
            commit: A commit whose files have their final names. Files whose modification time the store did not report
                get the commit's time.
            deliver: Whether to enqueue the changes for the metastore, or a function that decides by the table's
                definition.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is not reserved: it is still open, or it was undone.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: Another statement has created a table of this name since the reservation.
            ConflictError: Another statement has replaced the table to be replaced since the reservation.
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
        """Apply changes (of a repair, the follower or DDL) at once; return the outcome. No changes make no version.

        Args:
            table_id: The table's number.
            changes: The changes in any order. A partition may be both dropped and added; otherwise each is named once.
            operation: The operation for the history.
            summary: Stored in the history as JSON.
            deliver: Whether to enqueue the changes for the metastore.
            base: The table when the changes were computed; None if only the assumptions of each change are checked.
            listed_at_ms: A time before the store was listed, by the database's clock (``now_ms``): files that
                statements may have deleted since are not registered. None if the store was not listed.

        Raises:
            TableNotFoundError: The table is gone.
            ConflictError: A partition or file exists already, or is gone; or since ``base`` a partition, or the table's
                location or partition columns, have changed. Nothing is changed.
            DeletedFilesError: An added file is being deleted, or may have been since the listing. Nothing is changed.
            InvalidInputError: A name does not fit, or the changes contradict each other.
        """
        kept = _worth_committing(changes)
        if not kept:
            return AppliedChanges(version=Tables(self._database).load_by_id(table_id).version)

        def work(connection: sa.Connection, *, presume_new: bool) -> AppliedChanges:
            row = table_rows.raise_version(connection, table_id)
            deferred_deletes.require_complete(table_id, row.table.deleted_before_version)
            applier = Applier(connection, row)
            _Application(applier, base, listed_at_ms, presume_new=presume_new).apply(kept)
            return _outcome(applier, record(applier, operation, summary or {}, deliver=deliver))

        # With many new partitions, insert them without looking each one up first, which would take long.
        outcome = self._written(work, presume_new=sum(isinstance(c, AddPartition) for c in kept) >= _MANY)
        self._statistics.note(outcome.partitions_added + outcome.partitions_changed + outcome.files_added)
        return outcome

    def _written(self, work: Callable[..., AppliedChanges], *, presume_new: bool) -> AppliedChanges:
        """Run ``work`` in a transaction and return its result; ``presume_new`` skips the look-up of existing rows.

        If a presumed new row exists, the transaction is repeated with the look-up.
        """
        try:
            return self._database.write(partial(work, presume_new=presume_new))
        except IndexDatabaseError as error:
            if not presume_new or error.__cause__ is None or not is_duplicate(error.__cause__):
                raise
            # At least one partition exists already. The second attempt looks up each, so that its error names the
            # partition.
            return self._database.write(partial(work, presume_new=False))


_AT_ONCE = 500
_MANY = 1000


class _Application:
    """Applies changes to a table by writing the rows of one version.

    With ``presume_new`` it does not look up whether an added partition exists: the database then refuses the duplicate
    row (``is_duplicate``).
    """

    def __init__(self, applier: Applier, base: Table | None, listed_at_ms: int | None, *, presume_new: bool) -> None:
        self._applier = applier
        self._base = base
        self._listed_at_ms = listed_at_ms
        self._presume_new = presume_new

    def apply(self, changes: Sequence[Change]) -> None:
        """Check that the changes still fit the table's current state, and write them."""
        drops = [c for c in changes if isinstance(c, DropPartition)]
        replaced = [c for c in changes if isinstance(c, ReplaceFiles)]
        adds = [c for c in changes if isinstance(c, AddPartition)]
        self._check_unchanged([c.name for c in changes])
        known = self._applier.alive([
            c.name for c in changes if not (self._presume_new and isinstance(c, AddPartition))
        ])  # fmt: skip
        self._check(drops, replaced, adds, known)
        self._require_there([*replaced, *adds], known)
        dropped = [known[c.name] for c in drops]
        marked = self._marked(adds, dropped)
        self._applier.drop(dropped)
        self._replace([(c, known[c.name]) for c in replaced])
        self._applier.add(marked)
        self._applier.flush()

    def _marked(self, adds: Sequence[AddPartition], dropped: Sequence[Partition]) -> Sequence[AddPartition]:
        """Return the new partitions; mark those whose values another partition in the metastore has already.

        No look-up is needed if no other version was made since the changes were computed.
        """
        if self._base is None or self._applier.version == self._base.version + 1:
            return adds
        return mark_in_metastore(self._applier.connection, self._applier.table, adds, dropped)

    def _check_unchanged(self, names: Sequence[str]) -> None:
        """Raise if the table's location or keys, or one of the partitions, changed since the changes were computed.

        Raises:
            ConflictError: The table or a partition has changed.
        """
        if self._base is None:
            return
        then, now = self._base.definition, self._applier.table.definition
        if (then.location, then.keys) != (now.location, now.keys):
            table = self._applier.table.identifier
            raise ConflictError(
                f"The location or the partition columns of table {table} were changed by another process. The changes "
                "that this process had found were not made; retry.",
                {"table": str(table)},
            )
        if self._applier.version == self._base.version + 1:
            return
        changed = changed_after(self._applier.connection, self._applier.row, names, self._base.version)
        for name, version in changed.items():
            raise self._conflict(name, f"version {version} changed it")

    def _check(
        self, drops: Sequence[DropPartition], replaced: Sequence[ReplaceFiles], adds: Sequence[AddPartition],
        known: Mapping[str, Partition],
    ) -> None:  # fmt: skip
        dropped = {c.name for c in drops}
        for name in (*dropped, *(c.name for c in replaced)):
            if name not in known:
                raise self._conflict(name, "it is no longer there")
        for added in adds:
            if added.name in known and added.name not in dropped:
                raise self._conflict(added.name, "it is there already")

    def _require_there(self, changes: Sequence[AddPartition | ReplaceFiles], known: Mapping[str, Partition]) -> None:
        """Check that no file that the changes register is being deleted, or may have been since it was listed.

        Raises:
            DeletedFilesError: A file is being deleted, or may have been since the listing.
        """
        registering = [change for change in changes if _new_files(change)]
        if not registering:
            return
        base_version = None if self._base is None else self._base.version
        require_registrable(
            self._applier.connection, self._applier.table,
            lambda: [(change.name, self._directory(change, known), _new_files(change)) for change in registering],
            base_version, listed_at_ms=self._listed_at_ms,
        )  # fmt: skip

    def _directory(self, change: AddPartition | ReplaceFiles, known: Mapping[str, Partition]) -> str:
        """Return the directory of the files that a change registers."""
        there = known.get(change.name) if isinstance(change, ReplaceFiles) else None
        place = change.location or (None if there is None else there.location)
        return self._applier.table.directory(change.name, place)

    def _conflict(self, name: str, changed_state: str) -> ConflictError:
        table = self._applier.table.identifier
        return ConflictError(
            f"Another commit to table {table} was first, and changed partition "
            f"{name[:200]!r}: {changed_state}. The change was not made; read the table again and retry.",
            {"table": str(table), "partition": name[:200]},
        )

    def _replace(self, changes: Sequence[tuple[ReplaceFiles, Partition]]) -> None:
        for chunk in batched(changes, _AT_ONCE):
            contents = living_files(self._applier.connection, [before.partition_id for _, before in chunk])
            ended: list[tuple[int, DataFile]] = []
            for change, before in chunk:
                present = {file.path: file for file in contents.get(before.partition_id, ())}
                ended.extend((before.partition_id, file) for file in self._replace_one(change, before, present))
            self._applier.end_partitions([before.partition_id for _, before in chunk])
            self._applier.end_files(ended)

    def _replace_one(self, change: ReplaceFiles, before: Partition, present: dict[str, DataFile]) -> list[DataFile]:
        """Replace the partition's row, and return its removed files, whose rows the caller must end."""
        ended: list[DataFile] = []
        for path in change.removed:
            gone = present.pop(path, None)
            if gone is None:
                raise self._conflict(change.name, f"its file {path[:200]!r} is no longer there")
            ended.append(gone)
        for file in change.added:
            if file.path in present:
                raise self._conflict(change.name, f"its file {file.path[:200]!r} is there already")
        if change.redescribed:
            # With another descriptor, readers find other rows in the same files. So the files get new rows in the
            # index, without the old row counts and statistics.
            again = [replace(file, rows=None) for file in present.values()]
            self._applier.describe(before, [*again, *change.added], change.location, change.descriptor)
            return [*ended, *present.values()]
        self._applier.hold(before, list(present.values()), change.added, change.location)
        return ended


def _outcome(applier: Applier, deliveries: int) -> AppliedChanges:
    return AppliedChanges(
        version=applier.version,
        partitions_added=applier.partitions_added,
        partitions_dropped=applier.partitions_removed,
        partitions_changed=applier.partitions_changed,
        files_added=applier.files_added,
        files_removed=applier.files_removed,
        deliveries=deliveries,
    )


def _worth_committing(changes: Sequence[Change]) -> list[Change]:
    """Return the changes without those that would change nothing.

    Raises:
        InvalidInputError: Two changes concern the same partition or file, in a way that has no order.
    """
    kept = [
        c for c in changes if not isinstance(c, ReplaceFiles) or c.added or c.removed or c.location or c.redescribed
    ]
    adds = [c.name for c in kept if isinstance(c, AddPartition)]
    others = [c.name for c in kept if not isinstance(c, AddPartition)]
    twice = next((c.name for c in kept if _names_a_file_twice(c)), None)
    if twice is None and len({*adds}) == len(adds) and len({*others}) == len(others):
        return kept
    shown = (twice or next(name for names in (adds, others) for name in names if names.count(name) > 1))[:200]
    raise InvalidInputError(f"A commit names the partition {shown!r}, or a file of it, twice.", {"partition": shown})


def _names_a_file_twice(change: Change) -> bool:
    if isinstance(change, DropPartition):
        return False
    added = _new_files(change)
    return len(added) > 1 and len({f.path for f in added}) != len(added)


def _new_files(change: AddPartition | ReplaceFiles) -> Sequence[DataFile]:
    return change.files if isinstance(change, AddPartition) else change.added
