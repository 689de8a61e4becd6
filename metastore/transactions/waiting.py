"""Finds, commits and discards the files of streams that wait for their partitions to be due."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.lock_settings import HIVE_LOCKS, HIVE_LOCKS_WAIT
from catalog_ext.metastore.commit.plan import Append
from catalog_ext.metastore.commit.transaction import BeginWrite
from catalog_ext.metastore.errors import InvalidInputError, WaitingFilesMissingError
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.promotion import discard
from catalog_ext.metastore.transactions.reports import DiscardReport, LostFile, ReleaseReport, WaitingPartition
from catalog_ext.metastore.transactions.staging_locations import StagingLocations, below

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction, WriteOutcome
    from catalog_ext.metastore.index.write.waiting_files import WaitingFiles
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)


class Waiting:
    """Reads the list of files that a stream's earlier epochs keep invisible until their partitions are due."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._storage = resources.storage

    def documents(self, table_id: int, app_id: str | None = None) -> Iterator[WaitingFiles]:
        """Yield the stored lists of files that a table's streams (with ``app_id``: one stream) hold back."""
        return self._resources.index.waiting_files.all(table_id, app_id)

    def with_epochs(self, table_id: int, app_id: str | None = None) -> Iterator[tuple[WaitingFiles, Transaction]]:
        """Yield the stored lists of held back files, each with the transaction of the epoch that wrote its files."""
        epochs: dict[str, Transaction] = {}
        for waiting in self.documents(table_id, app_id):
            origin = waiting.transaction_id
            if origin not in epochs:
                epochs[origin] = self._resources.load(origin)
            yield waiting, epochs[origin]

    def files(
        self, table_id: int, app_id: str | None = None, directory: Callable[[str], str] | None = None
    ) -> Iterator[tuple[WaitingFiles, list[tuple[StagedFile, StagedLocation]]]]:
        """Yield the files that a table's streams, or one query, hold back, with their locations, one list at a time.

        ``directory`` returns the present directory of a partition, which may have moved since the files were written.
        None if only the files' present locations matter.
        """
        origins: dict[str, StagingLocations] = {}
        for waiting, epoch in self.with_epochs(table_id, app_id):
            origin = origins.setdefault(waiting.transaction_id, StagingLocations(waiting.transaction_id, epoch.plan))
            places = ((file, origin.locate(file)) for file in waiting.files)
            if directory is None:
                yield waiting, list(places)
            else:
                now = Location.parse(directory(waiting.partition))
                yield waiting, [(file, _sent_to(place, below(now, file.name))) for file, place in places]

    def lost(
        self,
        table_id: int,
        directory: Callable[[str], str],
        app_id: str | None = None,
        partitions: Collection[str] | None = None,
    ) -> Iterator[LostFile]:
        """Yield the held back files that can never be promoted, because they were deleted or changed.

        ``directory`` returns the present directory of a partition. ``app_id`` and ``partitions`` limit the search.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        uploads: dict[Location, set[str]] = {}
        for waiting, files in self.files(table_id, app_id, directory):
            if partitions is not None and waiting.partition not in partitions:
                continue
            places = [place for _, place in files]
            sources = self._storage.stat_many([place.hidden or place.target for place in places])
            for (file, place), entry in zip(files, sources, strict=True):
                if place.upload is not None and place.upload.upload_id in self._pending(place, uploads):
                    continue
                if not (_is_whole(place, entry) or _is_whole(place, self._storage.stat(place.target))):
                    yield LostFile(
                        waiting.partition, str(place.hidden or place.target), file.name, file.rows, file.size,
                        waiting.since_ms, waiting.transaction_id,
                    )  # fmt: skip

    def partitions(self, table_id: int, app_id: str | None = None) -> list[WaitingPartition]:
        """Sum up the files that wait for their partitions, by partition and query; with ``app_id``, of that query."""
        found: dict[tuple[str, str], WaitingPartition] = {}
        for waiting, epoch in self.with_epochs(table_id, app_id):
            key = (waiting.partition, epoch.app_id or "")
            before = found.get(key, WaitingPartition(*key, 0, 0, 0, waiting.since_ms))
            counts = [before.rows, *(file.rows for file in waiting.files)]
            found[key] = WaitingPartition(
                *key,
                files=before.files + len(waiting.files),
                rows=None if None in counts else sum(count or 0 for count in counts),
                bytes=before.bytes + sum(file.size for file in waiting.files),
                since_ms=min(before.since_ms, waiting.since_ms),
            )
        return [found[key] for key in sorted(found)]

    def check(
        self, table_id: int, table: str, app_id: str | None, due: Collection[str], directory: Callable[[str], str]
    ) -> None:
        """Check that all files that wait for the partitions ``due`` still exist.

        ``directory`` returns the present directory of a partition.

        Raises:
            WaitingFilesMissingError: A file was deleted or changed.
            StorageError: The store refuses or does not answer.
        """
        lost = list(self.lost(table_id, directory, app_id, due)) if due else []
        if lost:
            first = lost[0]
            raise WaitingFilesMissingError(
                f"{len(lost)} files of the stream into table {table} that waited for their partitions to be due are "
                f"gone; the first is {shown(first.location)} of partition {first.partition[:200]!r}. They were "
                "deleted, or the store has aborted their uploads. Nothing was written. `catalog-ext "
                f"discard-waiting {table}` or CALL <catalog>.system.discard_waiting(table => '{table}') says which "
                "rows are lost, gives them up, and lets the query go on; or bring the files back.",
                {"table": table, "partition": first.partition[:200], "count": str(len(lost))},
            )

    def _pending(self, place: StagedLocation, known: dict[Location, set[str]]) -> set[str]:
        """Return the uploads to the file's directory that are neither completed nor aborted."""
        directory = (place.hidden_upload or place.target).parent
        if directory not in known:
            known.clear()
            known[directory] = {upload.upload_id for upload in self._storage.uploads_to(directory).pending(directory)}
        return known[directory]


class WaitingCommits:
    """Commits or discards the files that streaming epochs keep invisible until their partitions are due.

    Args:
        commit_final: Begins a write and commits it as the end of its query.
    """

    def __init__(self, resources: Resources, commit_final: Callable[[BeginWrite], WriteOutcome]) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage
        self._waiting = Waiting(resources)
        self._commit_final = commit_final

    def release(self, table: Table, app_id: str, owner: str, options: Mapping[str, str]) -> WriteOutcome | None:
        """Commit the invisible files of a streaming query that has ended by itself; return None if it has none.

        ``options``: the options of the query's epochs.

        Raises:
            ConflictError: Another process is committing an epoch of the query.
            CatalogExtError: The write failed and is undone.
        """
        if next(self._waiting.documents(table.table_id, app_id), None) is None:
            return None
        request = BeginWrite(Append(), "STREAMING", owner, table, app_id=app_id, options=options)
        return self._commit_final(request)

    def release_all(self, table: Table, app_id: str | None, owner: str, *, dry_run: bool = False) -> ReleaseReport:
        """Commit the invisible files of one query, or of all queries, before their partitions are due.

        The partition-commit policies are those of the query's last epoch with waiting files, because its options may
        name them.

        Raises:
            ConflictError: Another process is committing an epoch of the query; earlier queries are committed.
            InvalidInputError: No query with this id has written to the table.
            CatalogExtError: The write failed and is undone.
        """
        found = self._waiting.partitions(table.table_id, app_id)
        if app_id is not None and not found:
            self._require_known(table, app_id)
        version: int | None = None
        for one in () if dry_run else sorted({partition.application for partition in found}):
            outcome = self.release(table, one, owner, self._options_of_waiting(table, one))
            version = version if outcome is None else outcome.version
        return ReleaseReport(str(table.identifier), tuple(found), version, dry_run)

    def _require_known(self, table: Table, query: str) -> None:
        """Check that a query with this id has written to the table."""
        if self._index.transactions.find_application(table.table_id, query) is not None:
            return
        others = sorted({one.application for one in self._waiting.partitions(table.table_id)})
        known = f"Rows wait of {', '.join(others[:5])}" if others else "No rows wait in it"
        raise InvalidInputError(
            f"No query {query[:100]!r} has written to table {table.identifier}. {known}; t.transactions has the ids "
            "of queries as app_id.",
            {"table": str(table.identifier), "application": query[:100]},
        )

    def _options_of_waiting(self, table: Table, app_id: str) -> Mapping[str, str]:
        """Return the options of the query's newest epoch with files that are still held back."""
        epochs = (epoch for _, epoch in self._waiting.with_epochs(table.table_id, app_id))
        newest = max(epochs, key=lambda epoch: (epoch.began_at_ms, epoch.app_version or 0), default=None)
        if newest is None:
            return {}
        locks = newest.plan.hive_locks
        return {**newest.plan.partition_commit, HIVE_LOCKS: locks.mode, HIVE_LOCKS_WAIT: f"{locks.wait_s}s"}

    def discard(self, table: Table, *, dry_run: bool = False) -> DiscardReport:
        """Forget invisible files that were deleted from the store, so that their stream can continue; return them.

        Raises:
            LocationNotFoundError: The table's directory is missing, for example because it is not mounted: nothing was
                discarded.
            TableNotFoundError: The table was dropped.
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

    @contextmanager
    def dropping(self, table: Table) -> Iterator[None]:
        """Return a context for dropping a table; on exit, the files that its streams keep invisible are removed.

        Raises:
            CatalogExtError: The table is dropped, but a file could not be removed.
        """
        locations = [place for _, batch in self._waiting.files(table.table_id) for _, place in batch]
        yield
        if locations:
            # Only files under hidden names are removed. A file that was committed in the meantime has its final name,
            # and stays.
            discard(self._storage, locations, threads=self._resources.threads)
            staged = [place.source.parent for place in locations if place.source is not None]
            self._storage.remove_empty_directories(staged, Location.parse(table.definition.location))
            logger.warning(
                "Table %s was dropped while %d files waited for their partitions to be due; they are removed.",
                table.identifier,
                len(locations),
            )


def _sent_to(place: StagedLocation, target: Location) -> StagedLocation:
    """Return the location with another target; an upload to the target itself stays, as it cannot go elsewhere."""
    return place if place.hidden is None else replace(place, target=target)


def _is_whole(place: StagedLocation, entry: Entry | None) -> bool:
    return entry is not None and entry.kind is EntryKind.FILE and entry.size == place.size
