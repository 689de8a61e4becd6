"""Commits or discards rows that streams have kept back until their partitions are due."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.lock_settings import HIVE_LOCKS, HIVE_LOCKS_WAIT
from catalog_ext.metastore.commit.plan import Append
from catalog_ext.metastore.commit.transaction import BeginWrite
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.promotion import discard
from catalog_ext.metastore.transactions.reports import DiscardReport, ReleaseReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.transactions.steps.resources import Resources

logger = logging.getLogger(__name__)


class WaitingCommits:
    """Commits or gives up what epochs of streams have kept back until its partitions are due.

    Args:
        resources: Those of commits.
        commit_final: Begins a write and commits it as the end of its query.
    """

    def __init__(self, resources: Resources, commit_final: Callable[[BeginWrite], WriteOutcome]) -> None:
        self._commit_final = commit_final
        self._index = resources.index
        self._storage = resources.storage
        self._waiting = resources.waiting
        self._threads = resources.threads

    def release(self, table: Table, app_id: str, owner: str, options: Mapping[str, str]) -> WriteOutcome | None:
        """Commit what a stream's epochs have kept back, because its query has ended by itself; None if nothing waits.

        Args:
            table: The table.
            app_id: The query's id, under which its epochs were committed.
            owner: Names the process, for messages.
            options: As the epochs had them.

        Raises:
            ConflictError: Another process is committing an epoch of the query.
            CatalogExtError: As ``commit``.
        """
        if next(self._waiting.documents(table.table_id, app_id), None) is None:
            return None
        request = BeginWrite(Append(), "STREAMING", owner, table, app_id=app_id, options=options)
        return self._commit_final(request)

    def release_all(self, table: Table, app_id: str | None, owner: str, *, dry_run: bool = False) -> ReleaseReport:
        """Commit what epochs of one query, or of all, have kept back, although its time has not come.

        The policies are those of the query's last epoch that kept something back, whose options may have named them.

        Args:
            table: The table.
            app_id: The query's id; None for all.
            owner: Names the process, for messages.
            dry_run: Preview only.

        Raises:
            ConflictError: Another process is committing an epoch of the query; those before it are committed.
            InvalidInputError: No such query has written to the table.
            CatalogExtError: As ``commit``.
        """
        found = self._waiting.partitions(table.table_id, app_id)
        if app_id is not None and not found:
            self._require_known(table, app_id)
        version: int | None = None
        for one in () if dry_run else sorted({partition.application for partition in found}):
            outcome = self.release(table, one, owner, self._options_of_waiting(table, one))
            version = version if outcome is None else outcome.version
        return ReleaseReport(str(table.identifier), tuple(found), version, dry_run)

    def _require_known(self, table: Table, app_id: str) -> None:
        """Return if a query of this id has written to the table."""
        if self._index.transactions.find_application(table.table_id, app_id) is not None:
            return
        others = sorted({one.application for one in self._waiting.partitions(table.table_id)})
        known = f"Rows wait of {', '.join(others[:5])}" if others else "No rows wait in it"
        raise InvalidInputError(
            f"No query {app_id[:100]!r} has written to table {table.identifier}. {known}; t.transactions has the ids "
            "of queries as app_id.",
            {"table": str(table.identifier), "application": app_id[:100]},
        )

    def _options_of_waiting(self, table: Table, app_id: str) -> Mapping[str, str]:
        """Return the options of the query's newest epoch that has kept something back."""
        epochs = self._waiting.epochs(table.table_id, app_id)
        newest = max(epochs, key=lambda epoch: (epoch.began_at_ms, epoch.app_version or 0), default=None)
        if newest is None:
            return {}
        locks = newest.plan.hive_locks
        return {**newest.plan.partition_commit, HIVE_LOCKS: locks.mode, HIVE_LOCKS_WAIT: f"{locks.wait_s}s"}

    def discard(self, table: Table, *, dry_run: bool = False) -> DiscardReport:
        """Discard waiting files that are gone, so that their stream can go on; return them.

        Raises:
            LocationNotFoundError: The table's directory is not there, as when a mount is away: nothing was given up.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        self._storage.check_directory(table.definition.location)

        def directory(partition: str) -> str:
            return table.directory(partition, self._index.partitions.locations(table, [partition]).get(partition))

        lost = tuple(self._waiting.lost(table.table_id, directory))
        if lost and not dry_run:
            self._index.waiting_files.discard(
                table.table_id, [(file.transaction_id, file.partition, file.name) for file in lost]
            )
            for file in lost:
                logger.warning(
                    "%s of table %s was given up: %s rows of partition %s that waited to be due are lost.",
                    file.location,
                    table.identifier,
                    "some" if file.rows is None else file.rows,
                    file.partition,
                )
        return DiscardReport(str(table.identifier), lost, dry_run)

    def locations(self, table: Table) -> list[StagedLocation]:
        """Return where everything of a table is that waits for its partition to be due."""
        return [place for _, batch in self._waiting.files(table.table_id) for _, place in batch]

    def remove(self, table: Table, locations: Sequence[StagedLocation]) -> None:
        """Remove what was waiting in a table that is gone.

        Raises:
            CatalogExtError: Something could not be removed.
        """
        if locations:
            # What was committed meanwhile has its final name, and stays.
            discard(self._storage, locations, threads=self._threads)
            staged = [place.source.parent for place in locations if place.source is not None]
            self._storage.remove_empty_directories(staged, Location.parse(table.definition.location))
            logger.warning(
                "Table %s was dropped while %d files waited for their partitions to be due; they are removed.",
                table.identifier,
                len(locations),
            )
