"""The steps of the commit protocol, each of which may be repeated; owner and recoverer take the same ones.

``docs/spec/commit-protocol.md`` says what each step is for, and what is there if it is the last one.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.partition_commit import PartitionCommit, run_policies
from catalog_ext.metastore.commit.plan import Append, CheckedExchange, Create, Overwrite, Promotion
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.staged_files import StoredFile
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    IndexDatabaseError,
    StorageAccessDeniedError,
    StorageError,
    TableNotFoundError,
    TransactionNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.failures import is_refused_for_good
from catalog_ext.metastore.index.write.partition_rows import gone_meanwhile
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.promotion import OvertakenError, discard, hide, keep, promote, undo, vanished
from catalog_ext.metastore.transactions.deletion_gate import without_needed
from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
from catalog_ext.metastore.transactions.relocations import replaced_by_relocations
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.store_cleanup import made_directories
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup

logger = logging.getLogger(__name__)

PolicyFailures: TypeAlias = "dict[str, CatalogExtError]"
"""Directories of partitions whose policies have failed, with the error."""

_AT_ONCE = 5000
"""Files that are held in memory at a time."""

_WHILE_HELD = 100
"""Files that are renamed while the transaction's row is held, so that they get and lose their names in its states."""


def _nothing() -> None:
    return None


class WriteUndoneError(Exception):
    """The transaction was undone, by this process or by another one.

    Attributes:
        reason: The error for its owner.
    """

    def __init__(self, reason: CatalogExtError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Steps:
    """The steps from ``reserved`` on, and those of undoing.

    Args:
        index: The index.
        storage: The stores.
        cleanup: Removes staging directories and empty ones.
        deliver: Says whether changes of a table are enqueued for the metastore.
        threads: Files that are promoted at the same time.
    """

    def __init__(
        self, index: Index, storage: Storage, cleanup: StoreCleanup, deliver: Callable[[TableDefinition], bool],
        threads: int,
    ) -> None:  # fmt: skip
        self._index = index
        self._storage = storage
        self._deliver = deliver
        self._threads = threads
        self._cleanup = cleanup
        self._waiting_files = Waiting(index, storage)
        self._moves = PartitionMoves(index, storage, deliver, threads)

    def forward(
        self,
        transaction: Transaction,
        *,
        owner: bool = True,
        promoted: set[str] | None = None,
        staged: Sequence[StagedFile] | None = None,
        confirm: Callable[[], None] = _nothing,
    ) -> Transaction:
        """Return the transaction, committed now or before: promote, commit.

        Args:
            transaction: In any state but ``open``.
            owner: Whether this is its owner: what anybody else may not do on the store, the owner's like may.
            promoted: The partitions whose files may have their final names by this owner's attempts; added to.
            staged: All its files, of which none waits, by an owner that has reserved it right before, when its table
                was there; None where the index is to be asked for both.
            confirm: Is called right before the commit; what it raises undoes the transaction.

        Raises:
            WriteUndoneError: It can never be committed, or was undone; nothing of it is visible.
            CatalogExtError: The store or the index is in trouble; the same call may be made again.
        """
        touched = (set() if promoted is None else promoted) if owner else None
        if transaction.state is State.RESERVED:
            try:
                if staged is None:
                    # Of a table that is gone nothing is promoted.
                    self._definition(transaction)
                self._moves.require_unshared(transaction, staged)
                if transaction.plan.moves:
                    # A backup of before would take what moves for lost.
                    self._index.incarnations.before_deleting()
                with span("promote"):
                    stored, left = self._promote(transaction, touched, staged)
            except OvertakenError:
                return self.again(transaction, touched, staged, confirm)
            except ConflictError as error:
                return self._take_back(transaction, error, touched, staged, confirm)
            except CatalogExtError as error:
                if _may_pass(error) or (isinstance(error, StorageAccessDeniedError) and not owner):
                    raise
                # A store that refuses for good does so ever after, and all that was staged can be taken back.
                return self._take_back(transaction, self._reason(transaction, error), touched, staged, confirm)
            tidied = self._tidied(transaction)
            try:
                fault_point("commit.before")
                confirm()
                with span("commit_rows"):
                    return self._commit(transaction, stored, left, tidied=tidied, staged=staged)
            except StorageError:
                raise
            except CatalogExtError as error:
                if isinstance(error, IndexDatabaseError) and _may_pass(error):
                    raise
                # What the index says no to, or its database, is as it is: nobody could ever commit it.
                return self._take_back(transaction, error, touched, staged, confirm)
        if transaction.state in (State.ABORTING, State.ABORTED):
            # Its tasks may have written after somebody else had removed everything.
            self.undo_quietly(transaction)
            raise WriteUndoneError(was_undone(transaction))
        return transaction

    def again(
        self,
        transaction: Transaction,
        promoted: set[str] | None,
        staged: Sequence[StagedFile] | None = None,
        confirm: Callable[[], None] = _nothing,
    ) -> Transaction:
        """Return a transaction that was reserved, committed: as ``forward``, of what the index has of it by now.

        Args:
            transaction: As it was.
            promoted: As ``forward`` takes them, of its owner; None of anybody else.
            staged: All its files, as far as its owner knows them.
            confirm: As ``forward`` takes it.

        Raises:
            WriteUndoneError, CatalogExtError: As ``forward``.
        """
        current = self._remembered(transaction)
        if current is None:
            return self._take_back_forgotten(transaction, promoted, staged, confirm)
        return self.forward(current, owner=promoted is not None, promoted=promoted, confirm=confirm)

    def _promote(
        self, transaction: Transaction, promoted: set[str] | None, staged: Sequence[StagedFile] | None
    ) -> tuple[dict[tuple[str, str], StoredFile], list[Removal]]:
        """Give the files their final names, and add their partitions to those that have some.

        Returns:
            What the store says of them, by partition and name, and what is left to be deleted after the commit.
        """
        fault_point("promote.before")
        plan = transaction.plan
        locations = StagingLocations(transaction.transaction_id, plan)
        if plan.definition is not None:
            self._storage.create_directory(locations.location)
        static = None if plan.write is None else plan.write.static_partition
        if static is not None:
            self._storage.create_directory(locations.directory(static))
        in_parallel(
            self._storage.create_directory, self._emptied(transaction, locations), self._storage.listing_threads
        )
        if plan.moves:
            self._moves.make_directories(transaction)
        stored: dict[tuple[str, str], StoredFile] = {}
        for batch in batched(self._own_files(transaction, locations, staged), _AT_ONCE):
            places = [place for _, place in batch]
            etags: Sequence[int | None] = ()
            if plan.moves:
                self._moves.promote(transaction, places)
            else:
                if promoted is not None:
                    promoted.update(file.partition for file, _ in batch)
                wanted = self._wanted(transaction)
                etags = promote(self._storage, places, threads=self._threads, wanted=wanted)
            stored.update(self._as_stored(batch, etags))
            self._storage.sync([place.target for place in places], locations.location)
            if plan.moves:
                # Last, so that no file is lost: one that came back with the power would be nobody's, and its rows there
                # twice after a repair, for the clean-up takes what lies at a source for somebody else's.
                self._storage.sync_directories({place.source.parent for place in places if place.source is not None})
        if plan.write is not None and plan.write.waiting:
            recorded, waiting = self._staged_files(transaction), frozenset(plan.write.waiting)
            held = (locations.locate(file) for file in recorded if file.partition in waiting)
            for some in batched(held, _AT_ONCE):
                if plan.aside:
                    keep(self._storage, some, threads=self._threads)
                # The source forgets them with the commit.
                self._storage.sync([place.hidden or place.target for place in some], locations.location)
        left: list[Removal] = [] if plan.definition is None else self._left_of_replaced(transaction)
        if plan.takes:
            left.extend(self._left_of_taken(transaction, staged))
        if plan.write is not None and plan.write.due:
            stored.update(self._promote_due(transaction, frozenset(plan.write.due), left))
        fault_point("promote.after")
        return stored, left

    def _emptied(self, transaction: Transaction, locations: StagingLocations) -> list[Location]:
        """Return the directories that a relocating TRUNCATE gives to its partitions, which stay registered.

        A repair drops a partition whose directory is not there.
        """
        plan = transaction.plan
        keeps = isinstance(plan.asked, Overwrite) and plan.asked.keep_emptied
        if not (keeps and plan.relocate) or not self._storage.store_has_directories(locations.location):
            return []
        try:
            table = self._index.tables.load_by_id(transaction.table_id or 0)
        except TableNotFoundError:
            return []
        predicate = bound_predicate(plan, table)
        living = [] if predicate is None else self._index.living_partitions.matching(table, predicate)
        return [locations.directory(partition.name) for partition in living]

    def _tidied(self, transaction: Transaction) -> bool:
        """Remove what a write leaves in its staging directory, and return whether its commit then ends it.

        Only what adds files is asked: what replaces some has a clean-up of its own, which does it all.
        """
        write = transaction.plan.write
        if write is None or not isinstance(write.asked, Append | Create):
            return False
        if write.waiting or write.due or write.published or transaction.plan.takes:
            return False
        try:
            self._cleanup.remove_staging(
                transaction, StagingLocations(transaction.transaction_id, transaction.plan), frozenset()
            )
        except CatalogExtError as error:
            # The files have their names, and what is left is invisible: the clean-up after the commit tries again.
            logger.info("What write %s has staged stays for now: %s", transaction.transaction_id, error.message)
            return False
        return True

    def _left_of_taken(self, transaction: Transaction, staged: Sequence[StagedFile] | None) -> Iterator[Removal]:
        """Yield what is left where a write has moved its files from: the copied objects, elsewhere their checksums."""
        copies = transaction.plan.promotion is Promotion.UPLOAD
        for file in self._staged_files(transaction, staged):
            assert file.source is not None, "what is taken was somewhere"
            if copies:
                yield Removal(file.source, file.size, file.modified_ms, file.etag)
            else:
                directory, _, name = file.source.rpartition("/")
                yield Removal(f"{directory}/.{name}.crc")

    def _left_of_replaced(self, transaction: Transaction) -> list[Removal]:
        """Return what relocations have left of a table that is replaced in its place: nobody would know it any more."""
        try:
            table = self._index.tables.load(TableIdentifier.parse(transaction.table))
        except TableNotFoundError:
            return []
        if table.definition.location != transaction.plan.location:
            return []
        left = {removal.path: removal for removal in replaced_by_relocations(self._index, table)}
        return [left[path] for path in sorted(without_needed(self._index, table, left))]

    def _wanted(self, transaction: Transaction) -> Callable[[], bool]:
        number = transaction.transaction_id
        return lambda: self._index.transactions.state_of(number) is State.RESERVED

    def _staged_files(
        self, transaction: Transaction, staged: Sequence[StagedFile] | None = None
    ) -> Iterable[StagedFile]:
        """Return the files of a transaction: the given ones, or those that the index has recorded."""
        return self._index.transaction_files.staged_files(transaction.transaction_id) if staged is None else staged

    def _own_files(
        self, transaction: Transaction, locations: StagingLocations, staged: Sequence[StagedFile] | None
    ) -> Iterator[tuple[StagedFile, StagedLocation]]:
        """Yield the files that become visible with the transaction itself."""
        write = transaction.plan.write
        waiting = frozenset(() if write is None else write.waiting)
        for file in self._staged_files(transaction, staged):
            if file.partition not in waiting:
                yield file, locations.locate(file)

    def _promote_due(
        self, transaction: Transaction, due: frozenset[str], left: list[Removal]
    ) -> dict[tuple[str, str], StoredFile]:
        """Promote what earlier transactions have left waiting for partitions that are due with this one.

        What is copied is put to what is left.
        """
        stored: dict[tuple[str, str], StoredFile] = {}
        emptied: set[Location] = set()
        for partition, batch in self._waiting(
            transaction.table_id or 0, transaction.app_id, transaction.plan.directory
        ):
            if partition in due:
                places = [place for _, place in batch]
                self._promote_waiting(transaction, places)
                stored.update(self._as_stored(batch))
                self._storage.sync([place.target for _, place in batch], Location.parse(transaction.plan.location))
                emptied.update(place.source.parent for _, place in batch if place.source is not None)
                left.extend(Removal(str(place.aside)) for _, place in batch if place.aside is not None)
        self._storage.remove_empty_directories(emptied, Location.parse(transaction.plan.location))
        return stored

    def _promote_waiting(self, transaction: Transaction, places: Sequence[StagedLocation]) -> None:
        """Promote what an undoing hides again: an owner that is late may not show it then.

        Raises:
            OvertakenError: The transaction is not reserved any more.
        """
        if any(place.source is None for place in places):
            # A copy may take long: it is asked for before each.
            promote(self._storage, places, threads=self._threads, wanted=self._wanted(transaction))
            return
        for some in batched(places, _WHILE_HELD):
            work = partial(promote, self._storage, some, threads=self._threads)
            if not self._index.transactions.while_in_state(transaction.transaction_id, State.RESERVED, work):
                raise OvertakenError

    def _hide_due(self, transaction: Transaction) -> set[Location]:
        """Hide what waited and was promoted with a transaction that is undone; return the directories of its files.

        What a store refuses to hide stays where Hive engines see it, until an epoch commits it.
        """
        write = transaction.plan.write
        due = frozenset(() if write is None else write.due)
        directories: set[Location] = set()
        number, directory = transaction.table_id or 0, transaction.plan.directory
        found = self._waiting(number, transaction.app_id, directory) if due else iter(())
        for partition, batch in found:
            for some in batched([place for _, place in batch] if partition in due else (), _WHILE_HELD):
                fault_point("undo.due")
                if not self._hidden(transaction, some):
                    return directories
                directories.update(place.target.parent for place in some)
                directories.update(place.source.parent for place in some if place.source is not None)
        fault_point("undo.due")
        return directories

    def _hidden(self, transaction: Transaction, places: Sequence[StagedLocation]) -> bool:
        """Hide some files; return False where somebody else has ended the undoing: they may be the next epoch's."""
        work = partial(hide, self._storage, places, threads=self._threads)
        try:
            return self._index.transactions.while_in_state(transaction.transaction_id, State.ABORTING, work)
        except StorageError as error:
            if error.retryable:
                raise
            logger.warning(
                "Files of the stream into table %s that wait for their partitions to be due stay visible until its "
                "next epoch: %s",
                transaction.table,
                error.message,
            )
            return True

    def _waiting(
        self, table_id: int, app_id: str | None = None, directory: Callable[[str], str] | None = None
    ) -> Iterator[tuple[str, list[tuple[StagedFile, StagedLocation]]]]:
        """Yield the waiting files of a table with their locations, by partition and a document at a time."""
        for waiting, files in self._waiting_files.files(table_id, app_id, directory):
            yield waiting.partition, files

    def waiting_locations(self, table: Table) -> list[StagedLocation]:
        """Return where everything is that waits for its partition to be due."""
        return [place for _, batch in self._waiting(table.table_id) for _, place in batch]

    def discard(self, table: Table, locations: Sequence[StagedLocation]) -> None:
        """Remove what was waiting in a table that is gone.

        Raises:
            CatalogExtError: Something could not be removed.
        """
        if locations:
            # What somebody has committed meanwhile has its final name.
            discard(self._storage, locations, threads=self._threads)
            staged = [place.source.parent for place in locations if place.source is not None]
            self._storage.remove_empty_directories(staged, Location.parse(table.definition.location))
            logger.warning(
                "Table %s was dropped while %d files waited for their partitions to be due; they are removed.",
                table.identifier,
                len(locations),
            )

    def _as_stored(
        self, batch: Sequence[tuple[StagedFile, StagedLocation]], etags: Sequence[int | None] = ()
    ) -> dict[tuple[str, str], StoredFile]:
        """Return the files as the store shows them, so that a repair finds them unchanged.

        Args:
            batch: Files that have their final names.
            etags: What the store has said of each when its upload was completed.

        Raises:
            StagedFileMissingError: Another process has deleted one since it was promoted.
        """
        # S3 would take a request a file, while engines that list directories see what the index does not have yet.
        # A repair compares these files by size and ETag, which the store has said, and does without the times.
        by_upload = bool(batch) and batch[0][1].upload is not None
        if not batch or by_upload:
            said = zip(batch, etags, strict=False)
            return {(f.partition, f.name): StoredFile(etag=etag) for (f, _), etag in said if etag is not None}
        there = self._storage.identify_many([place.target for _, place in batch])
        found: dict[tuple[str, str], StoredFile] = {}
        for (file, place), entry in zip(batch, there, strict=True):
            if entry is None:
                raise vanished(place.target)
            found[file.partition, file.name] = StoredFile(entry.modified_ms, entry.etag)
        return found

    def _commit(
        self,
        transaction: Transaction,
        stored: dict[tuple[str, str], StoredFile],
        left: Sequence[Removal],
        *,
        tidied: bool,
        staged: Sequence[StagedFile] | None,
    ) -> Transaction:
        source_id = transaction.plan.source_id
        committed = self._index.commits.apply(
            transaction.transaction_id,
            deliver=self._deliver,
            stored=stored,
            left=left,
            tidied=tidied,
            known=transaction,
            staged=staged,
            deliver_source=source_id is not None and self._deliver(self._index.tables.load_by_id(source_id).definition),
        )
        fault_point("commit.after")
        return committed

    def _definition(self, transaction: Transaction) -> TableDefinition:
        if transaction.plan.definition is not None:
            return transaction.plan.definition
        return self._index.tables.load_by_id(transaction.table_id or 0).definition

    def _reason(self, transaction: Transaction, error: CatalogExtError) -> CatalogExtError:
        """Return why a write cannot be finished: files vanish with a table that is dropped."""
        try:
            self._definition(transaction)
        except TableNotFoundError:
            gone = gone_meanwhile(transaction.table)
            gone.__cause__ = error
            return gone
        return error

    def _take_back(
        self,
        transaction: Transaction,
        error: CatalogExtError,
        promoted: set[str] | None,
        staged: Sequence[StagedFile] | None,
        confirm: Callable[[], None],
    ) -> Transaction:
        """Undo a reserved transaction that can never be committed; one that somebody has moved stays as it is.

        Raises:
            WriteUndoneError: It was undone, here or elsewhere.
        """
        moved = self._index.transactions.move(
            transaction.transaction_id, (State.RESERVED,), State.ABORTING, error=error.message
        )
        current = self._remembered(transaction)
        if current is None:
            return self._take_back_forgotten(transaction, promoted, staged, confirm)
        if not moved and current.state in (State.COMMITTED, State.FINISHED):
            # A file that was promoted, committed and then overwritten looks as if it had vanished.
            return current
        self.undo_quietly(current)
        raise WriteUndoneError(error)

    def _remembered(self, transaction: Transaction) -> Transaction | None:
        """Return a transaction that was reserved, as the index has it now; None if it has forgotten that it was."""
        try:
            current = self._index.transactions.load(transaction.transaction_id)
        except TransactionNotFoundError:
            return None
        # One whose reservation was suspected counts as reserved and may be open again all the same.
        return current if current.reserved and current.state is not State.OPEN else None

    def _take_back_forgotten(
        self,
        transaction: Transaction,
        promoted: set[str] | None,
        staged: Sequence[StagedFile] | None,
        confirm: Callable[[], None],
    ) -> Transaction:
        """Undo what a database has forgotten that failed over, or was put back: its owner knows what was promoted.

        The index learns of it first, so that no repair takes for somebody's what a crash leaves of it.

        Raises:
            WriteUndoneError: It was undone.
            CatalogExtError: Something of it may be visible.
        """
        forgotten = forgotten_error(transaction)
        if promoted is None:
            # Its owner may have acknowledged it before.
            raise forgotten
        current = self._index.transactions.remember_undone(transaction, forgotten.message)
        if current.state not in (State.ABORTING, State.ABORTED):
            # Another call of the same commit has reserved it again since: its files are that one's, too.
            return self.again(transaction, promoted, staged, confirm)
        # What was written is deleted wherever it is; what was moved goes back.
        self.undo(current, staged or () if current.plan.takes else (), promoted)
        raise WriteUndoneError(forgotten)

    def abandon(self, transaction: Transaction, reason: str) -> None:
        """Undo a transaction that is not committed, whatever it is waiting for.

        Raises:
            TransactionStateError: It is committed.
            CatalogExtError: Something could not be removed; the same call may be made again.
        """
        number = transaction.transaction_id
        self._index.transactions.move(number, (State.OPEN, State.RESERVED), State.ABORTING, error=reason)
        current = self._index.transactions.load(number)
        if current.state not in (State.ABORTING, State.ABORTED):
            raise TransactionStateError(
                f"The write {number} to table {current.table} is {current.state} and cannot be undone: its rows are in "
                "the table. Without 'undo', recover finishes it.",
                {"transaction": number, "table": current.table, "state": str(current.state)},
            )
        self.undo(current)

    def undo_quietly(self, transaction: Transaction) -> None:
        """Undo, where the caller has an error of its own to raise: what goes wrong is logged, and left to recovery."""
        try:
            self.undo(transaction)
        except CatalogExtError as error:
            logger.warning(
                "The transaction %s on table %s could not be undone yet; recover removes its files: %s",
                transaction.transaction_id,
                transaction.table,
                error.message,
            )

    def undo(self, transaction: Transaction, brought: Sequence[StagedFile] = (), promoted: Collection[str] = ()) -> int:
        """Remove every file of a transaction that is ``aborting``, and make it ``aborted``; return their number.

        Args:
            transaction: The transaction.
            brought: Files of it that the index does not know: not every store tells which uploads are pending.
            promoted: Partitions where files of it may be visible that the index does not know.

        Raises:
            CatalogExtError: Something could not be removed; the same call may be made again.
        """
        fault_point("undo.before")
        locations = StagingLocations(transaction.transaction_id, transaction.plan)
        if transaction.plan.is_command or transaction.plan.takes:
            return self._undo_command(transaction, locations, brought)
        # A file under its final name is then one of a commit that an index restored to before it has forgotten.
        remove = undo if transaction.reserved else discard
        self._cleanup.remove_staging(transaction, locations, frozenset())
        fault_point("undo.sources")
        removed = 0
        directories: set[Location] = set()
        for batch in batched(chain(self._staged_files(transaction), brought), _AT_ONCE):
            placed = [locations.locate(file) for file in batch]
            remove(self._storage, placed, threads=self._threads)
            directories.update(place.target.parent for place in placed)
            removed += len(placed)
        searched = [locations.directory(partition) for partition in sorted(promoted)]
        removed += self._cleanup.remove_named(transaction.transaction_id, searched)
        directories.update(searched)
        directories.update(self._hide_due(transaction))
        write = transaction.plan.write
        if write is not None and write.static_partition is not None:
            directories.add(locations.directory(write.static_partition))
        directories.update(self._emptied(transaction, locations))
        self._cleanup.remove_directories(transaction.table_id, directories, locations.location)
        self._storage.sync_directories(directories)
        if transaction.plan.created_location and not self._index.tables.overlapping(transaction.plan.location):
            # Whoever has made a table there meanwhile keeps its directory.
            self._storage.remove_empty_directories([locations.location], locations.location.parent)
        self._index.transactions.move(transaction.transaction_id, (State.ABORTING,), State.ABORTED)
        fault_point("undo.after")
        return removed

    def _undo_command(
        self, transaction: Transaction, locations: StagingLocations, brought: Sequence[StagedFile]
    ) -> int:
        """Move files back where they came from; of partitions without files nothing but directories was made."""
        plan, reserved = transaction.plan, transaction.reserved
        directories = made_directories(plan, locations)
        fault_point("undo.sources")
        # What lies at the names of a load that was never reserved is one's that an index put back has forgotten.
        restores = plan.moves and (reserved or not plan.takes)
        if restores and reserved:
            # A copy of the index that does not know of the undoing would carry the command out.
            self._index.incarnations.before_deleting()
        moved = self._moves.restore(transaction, brought) if restores else []
        directories.update(place.target.parent for place in moved)
        fault_point("undo.due")
        self._cleanup.remove_directories(transaction.table_id, directories, locations.location)
        sources = {place.source.parent for place in moved if place.source is not None}
        self._storage.sync_directories({*directories, *sources})
        self._index.transactions.move(transaction.transaction_id, (State.ABORTING,), State.ABORTED)
        fault_point("undo.after")
        return len(moved)

    def with_strays(self, commands: Sequence[Transaction]) -> list[Transaction]:
        """Return those of the partition commands, all ended, that late movers may have left something of."""
        return self._moves.with_strays(commands)

    def return_strays(self, transaction: Transaction) -> None:
        """Put back what late movers of a partition command that has ended have taken and not put back.

        Raises:
            CatalogExtError: The store refuses or does not answer; the same call may be made again.
        """
        self._moves.return_strays(transaction)

    def _remove_source_directories(self, plan: WritePlan, directories: Iterable[Location]) -> None:
        """Remove what an exchange has emptied in the source table."""
        if isinstance(plan.change, CheckedExchange):
            root = Location.parse(plan.change.source_location)
            self._cleanup.remove_directories(plan.change.asked.source_id, directories, root)

    def clean_up(self, transaction: Transaction, failures: PolicyFailures | None = None) -> int:
        """Remove what a committed transaction has replaced or left, and finish it; return the number of removed files.

        Args:
            transaction: It is committed.
            failures: The directories whose policies have failed in this recovery, for an earlier transaction: they are
                not run for them again. Noted here.

        Raises:
            CatalogExtError: Something could not be removed; the same call may be made again.
        """
        fault_point("clean.before")
        # After the commit: a copy of the index that does not know it is to know that it is old.
        self._index.incarnations.before_deleting()
        locations = StagingLocations(transaction.transaction_id, transaction.plan)
        removed = 0
        for batch in batched(self._index.deletions.of(transaction.transaction_id), _AT_ONCE):
            if self._index.transactions.load(transaction.transaction_id).state is State.FINISHED:
                # By somebody else: these names may be given again, as a RENAME brings back any that it finds elsewhere.
                return removed
            replaced = [removal for removal in batch if not removal.is_directory]
            if transaction.operation == VACUUM:
                replaced = self._unneeded(transaction, replaced)
            files = self._cleanup.remove_replaced(transaction.table_id, replaced, locations.location)
            removed += len(files)
            directories = {file.parent for file in files}
            directories.update(Location.parse(removal.path) for removal in batch if removal.is_directory)
            self._cleanup.remove_directories(transaction.table_id, directories, locations.location)
            self._remove_source_directories(transaction.plan, directories)
            # Who finishes forgets what was to be deleted, and would not delete it again after a power loss.
            self._storage.sync_directories(directories)
        fault_point("clean.removed")
        if transaction.plan.moves:
            self._moves.tidy(transaction)
        elif not transaction.plan.is_command:
            self._cleanup.remove_staging(transaction, locations, self._still_waiting(transaction, locations))
        fault_point("clean.staging")
        try:
            self._run_policies(transaction, locations, {} if failures is None else failures)
        except CatalogExtError:
            # A RENAME waits for what is to be deleted, which is done, and not for a policy that may fail for good.
            self._index.deletions.forget(transaction.transaction_id)
            raise
        self._index.transactions.finish(transaction.transaction_id)
        fault_point("clean.after")
        return removed

    def _unneeded(self, claim: Transaction, removals: Sequence[Removal]) -> list[Removal]:
        """Return what a vacuum that died has claimed and no command that is under way is to register."""
        try:
            table = self._index.tables.load_by_id(claim.table_id or 0)
        except TableNotFoundError:
            # Its replaced files belong to the user now, as all other files of a table that is unregistered.
            return []
        free = without_needed(self._index, table, {removal.path for removal in removals})
        return [removal for removal in removals if removal.path in free]

    def _still_waiting(self, transaction: Transaction, locations: StagingLocations) -> frozenset[Location]:
        """Return where the transaction's files that wait for their partition are: staged files, or keys of uploads."""
        if transaction.plan.write is None or not transaction.plan.write.waiting:
            return frozenset()
        mine = (
            locations.locate(file)
            for waiting in self._index.waiting_files.all(transaction.table_id or 0, transaction.app_id)
            if waiting.transaction_id == transaction.transaction_id
            for file in waiting.files
        )
        return frozenset(place.hidden or place.target for place in mine)

    def _run_policies(self, transaction: Transaction, locations: StagingLocations, failures: PolicyFailures) -> None:
        plan = transaction.plan
        if plan.write is None or not plan.write.published:
            return
        published = [(name, str(locations.directory(name))) for name in plan.write.published]
        known = next((failures[place] for _, place in published if place in failures), None)
        if known is not None:
            raise known
        keys = [column.name for column in self._definition(transaction).partition_columns]
        try:
            run_policies(PartitionCommit.of(plan.partition_commit, keys), published, self._storage.write_file)
        except CatalogExtError as error:
            failures.update((place, error) for _, place in published)
            raise


def _may_pass(error: CatalogExtError) -> bool:
    """Return whether a later attempt may get further."""
    return not is_refused_for_good(error) if isinstance(error, IndexDatabaseError) else error.retryable


def was_undone(transaction: Transaction) -> CatalogExtError:
    """Return the error for the owner of a transaction that somebody has undone."""
    return TransactionStateError(
        f"The write {transaction.transaction_id} to table {transaction.table} was undone: "
        f"{transaction.error or 'its lease was over'}. Nothing of it is visible; run the statement again.",
        {"transaction": transaction.transaction_id, "table": transaction.table, "state": str(transaction.state)},
    )


def forgotten_error(transaction: Transaction) -> CatalogExtError:
    """Return the error for the owner of a transaction that the index has forgotten, or that it was reserved."""
    return TransactionStateError(
        f"The index has forgotten the write {transaction.transaction_id} to table {transaction.table}: its database "
        "has failed over, or was put back to an earlier time. Nothing of the write is visible; run it again.",
        {"transaction": transaction.transaction_id, "table": transaction.table, "state": "forgotten"},
    )
