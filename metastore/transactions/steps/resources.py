"""What the steps of a commit work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import TransactionNotFoundError
from catalog_ext.metastore.transactions.commit_locks import NO_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.commit_locks import CommitLock, NoLock
    from catalog_ext.metastore.transactions.new_files import NewFiles
    from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
    from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
    from catalog_ext.metastore.transactions.waiting import Waiting


class DeliveryOutcome(Protocol):
    """The outcome of a publication to the metastore."""

    @property
    def pending(self) -> int:
        """Return the number of messages that it has not accepted yet."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    """The index, the stores and the objects that the steps use; one for all commits of a ``Transactions``.

    Attributes:
        index: The index.
        storage: The stores.
        new_files: Looks at the directories of partitions.
        cleanup: Removes staging directories and empty ones.
        waiting: Reads the lists of files that wait for their partitions to be due.
        moves: Moves the files of partition commands and of LOAD DATA.
        delivers: Says whether changes of a table are enqueued for the metastore.
        publish: Delivers the due messages of a table, by number (None: of all); returns None without a metastore.
        threads: Files that are promoted at the same time.
        pauses: Yields the numbers of attempts while the index is away, with waits in between.
        lock: Hive's locks of the commit at hand.
    """

    index: Index
    storage: Storage
    new_files: NewFiles
    cleanup: StoreCleanup
    waiting: Waiting
    moves: PartitionMoves
    delivers: Callable[[TableDefinition], bool]
    publish: Callable[[int | None], DeliveryOutcome | None]
    threads: int
    pauses: Callable[[], Iterator[int]]
    lock: CommitLock | NoLock = NO_LOCK

    def staged_files(self, commit: Commit) -> Iterable[StagedFile]:
        """Return all staged files of a commit, from the index where the commit does not hold them."""
        return self.recorded_files(commit.transaction_id) if commit.all_files is None else commit.all_files

    def recorded_files(self, transaction_id: str) -> Iterable[StagedFile]:
        """Return the staged files that the index has of a transaction."""
        return self.index.transaction_files.staged_files(transaction_id)

    def table(self, transaction: Transaction) -> Table:
        """Return the table that a transaction changes.

        Raises:
            TableNotFoundError: It is gone, or not made yet.
        """
        return self.table_of(transaction.table_id or 0)

    def table_of(self, table_id: int) -> Table:
        """Return the table of a number at its newest version.

        Raises:
            TableNotFoundError: There is none.
        """
        return self.index.tables.load_by_id(table_id)

    def definition(self, transaction: Transaction) -> TableDefinition:
        """Return the definition of the table that a transaction changes or makes.

        Raises:
            TableNotFoundError: It is gone.
        """
        return transaction.plan.definition or self.table(transaction).definition

    def load(self, transaction_id: str) -> Transaction:
        """Return a transaction as it is now.

        Raises:
            TransactionNotFoundError: There is none.
        """
        return self.index.transactions.load(transaction_id)

    def is_reserved(self, transaction: Transaction) -> bool:
        """Return whether a transaction is reserved now: files are given their final names only then."""
        return self.index.transactions.state_of(transaction.transaction_id) is State.RESERVED

    def start_undo(self, transaction_id: str, states: Collection[State], reason: str) -> bool:
        """Return whether the transaction was in one of the states and is ``aborting`` now, for a reason."""
        return self.index.transactions.move(transaction_id, states, State.ABORTING, error=reason)

    def load_reserved(self, transaction: Transaction) -> Transaction | None:
        """Return a transaction that was reserved, as it is now; None if the index has forgotten that it was."""
        try:
            current = self.load(transaction.transaction_id)
        except TransactionNotFoundError:
            return None
        # A retried commit marks its reservation as suspected: ``reserved`` is set then, and the state still open.
        return current if current.reserved and current.state is not State.OPEN else None
