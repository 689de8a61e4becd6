"""Files of a stream that wait for their partitions to be due: where they are, and which of them are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import WaitingFilesMissingError
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.transactions.reports import LostFile, WaitingPartition
from catalog_ext.metastore.transactions.staging_locations import StagingLocations, below

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.write.transactions import IndexedTransactions
    from catalog_ext.metastore.index.write.waiting_files import WaitingFiles, WaitingLists
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.storage.store import Storage


class Waiting:
    """Reads the files that earlier epochs have left waiting; nothing is changed.

    Args:
        lists: The lists of waiting files.
        transactions: Has the epochs that left them.
        storage: The stores.
    """

    def __init__(self, lists: WaitingLists, transactions: IndexedTransactions, storage: Storage) -> None:
        self._lists = lists
        self._transactions = transactions
        self._storage = storage

    def documents(self, table_id: int, app_id: str | None = None) -> Iterator[WaitingFiles]:
        """Yield the lists of a table's waiting files; with ``app_id`` those of one query."""
        return self._lists.all(table_id, app_id)

    def epochs(self, table_id: int, app_id: str | None = None) -> list[Transaction]:
        """Return the transactions of the epochs that have left files waiting, sorted by id."""
        origins = {waiting.transaction_id for waiting in self.documents(table_id, app_id)}
        return [self._transactions.load(origin) for origin in sorted(origins)]

    def files(
        self, table_id: int, app_id: str | None = None, directory: Callable[[str], str] | None = None
    ) -> Iterator[tuple[WaitingFiles, list[tuple[StagedFile, StagedLocation]]]]:
        """Yield the waiting files of a table, or of one query, with their locations, a document at a time.

        Args:
            table_id: The table's number.
            app_id: Only those of this query.
            directory: Says where a partition's files go now: it may have moved since they were written. None where only
                it matters where they are.
        """
        origins: dict[str, StagingLocations] = {}
        for waiting in self.documents(table_id, app_id):
            origin = waiting.transaction_id
            if origin not in origins:
                origins[origin] = StagingLocations(origin, self._transactions.load(origin).plan)
            places = ((file, origins[origin].locate(file)) for file in waiting.files)
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
        """Yield the waiting files that can never be promoted: they are gone, or are not as they were written.

        Args:
            table_id: The table's number.
            directory: Says where a partition's files go now.
            app_id: Only those of this query.
            partitions: Only those of these partitions.

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
                        waiting.partition,
                        str(place.hidden or place.target),
                        file.name,
                        file.rows,
                        file.size,
                        waiting.since_ms,
                        waiting.transaction_id,
                    )

    def partitions(self, table_id: int, app_id: str | None = None) -> list[WaitingPartition]:
        """Return what waits of each partition and query, sorted; of one query only, where it is given."""
        found: dict[tuple[str, str], WaitingPartition] = {}
        applications: dict[str, str] = {}
        for waiting in self.documents(table_id, app_id):
            origin = waiting.transaction_id
            if origin not in applications:
                applications[origin] = self._transactions.load(origin).app_id or ""
            key = (waiting.partition, applications[origin])
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
        """Return if everything is there that waits in partitions that are due, and go to where ``directory`` says.

        Raises:
            WaitingFilesMissingError: Something is gone.
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
            known[directory] = {upload.upload_id for upload in self._storage.list_uploads(directory)}
        return known[directory]


def _sent_to(place: StagedLocation, target: Location) -> StagedLocation:
    """Return the place with another target; an upload to the target itself can only be completed there."""
    return place if place.hidden is None else replace(place, target=target)


def _is_whole(place: StagedLocation, entry: Entry | None) -> bool:
    return entry is not None and entry.kind is EntryKind.FILE and entry.size == place.size
