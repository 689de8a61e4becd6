"""The index, the stores and the shared settings that all steps of commits use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import TransactionNotFoundError
from catalog_ext.metastore.model.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Partition, Table, TableDefinition
    from catalog_ext.metastore.storage.store import Storage


class DeliveryOutcome(Protocol):
    """The outcome of a publication to the metastore."""

    @property
    def pending(self) -> int:
        """Return the number of outbox messages that the metastore has not accepted yet."""
        ...


class HeldLocks:
    """The Hive locks around a change. This base class, for tables without locking, takes no locks."""

    def take(self, files: Iterable[StagedFile], static: str | None = None) -> None:
        """Take the locks of a commit; see ``CommitLock.take``."""

    def confirm(self) -> None:
        """Check that the locks are still held.

        Raises:
            HiveLockLostError: A lock was lost.
        """


NO_LOCKS = HeldLocks()


@dataclass(frozen=True, slots=True)
class Resources:
    """The index and the stores; one instance for all commits of a ``Transactions``.

    Attributes:
        delivers: Returns whether changes of a table are enqueued for the metastore.
        publish: Delivers the due messages of a table, given by number (None: of all tables); returns None without a
            metastore.
        threads: The number of parallel promotions and listings.
        pauses: Yields the numbers of attempts while the index does not answer, with waits in between.
        lock: The Hive locks of the current commit.
    """

    index: Index
    storage: Storage
    delivers: Callable[[TableDefinition], bool]
    publish: Callable[[int | None], DeliveryOutcome | None]
    threads: int
    pauses: Callable[[], Iterator[int]]
    lock: HeldLocks = NO_LOCKS

    def staged_files(self, commit: Commit) -> Iterable[StagedFile]:
        """Return all staged files of a commit; they are read from the index unless the commit has them in memory."""
        return self.recorded_files(commit.transaction_id) if commit.all_files is None else commit.all_files

    def recorded_files(self, transaction_id: str) -> Iterator[StagedFile]:
        """Return the staged files of a transaction that are recorded in the index."""
        return self.index.transaction_files.staged_files(transaction_id)

    def recorded_count(self, transaction_id: str) -> int:
        """Return the number of a transaction's staged files that are recorded in the index."""
        return self.index.transaction_files.staged_count(transaction_id)

    def table(self, transaction: Transaction) -> Table:
        """Return the table that a transaction changes.

        Raises:
            TableNotFoundError: The table was dropped or is not created yet.
        """
        return self.table_of(transaction.table_id or 0)

    def table_of(self, table_id: int) -> Table:
        """Return the table with this number at its newest version.

        Raises:
            TableNotFoundError: There is no table with this number.
        """
        return self.index.tables.load_by_id(table_id)

    def target_table(self, transaction: Transaction) -> Table | None:
        """Return the table whose files the transaction changes or replaces; None for a new or dropped table."""
        number = transaction.table_id
        return self.index.tables.find(TableIdentifier.parse(transaction.table) if number is None else number)

    def definition(self, transaction: Transaction) -> TableDefinition:
        """Return the definition of the table that a transaction changes or creates.

        Raises:
            TableNotFoundError: The table was dropped.
        """
        return transaction.plan.definition or self.table(transaction).definition

    def partitions_of_values(self, table: Table, names: Collection[str]) -> list[Partition]:
        """Return the table's partitions whose values equal those of one of the names."""
        return self.index.living_partitions.of_values(table, sorted(names))

    def locations(self, transaction: Transaction, names: Collection[str]) -> dict[str, str]:
        """Return the locations of those partitions of a transaction's table that have their own locations."""
        return self.index.partitions.locations(self.table(transaction), names)

    def now_ms(self) -> int:
        """Return the database's time, in milliseconds since the epoch."""
        return self.index.now_ms()

    def load(self, transaction_id: str) -> Transaction:
        """Return the current state of a transaction.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
        """
        return self.index.transactions.load(transaction_id)

    def in_states(self, states: Sequence[State]) -> list[Transaction]:
        """Return the transactions of all tables that are in one of the states, newest first."""
        return self.index.transactions.all(states=states)

    def is_in(self, transaction_id: str, states: Collection[State]) -> bool:
        """Return whether a transaction is in one of the states now."""
        return self.index.transactions.state_of(transaction_id) in states

    def is_reserved(self, transaction: Transaction) -> bool:
        """Return whether a transaction is reserved now; only then its files may get their final names."""
        return self.is_in(transaction.transaction_id, (State.RESERVED,))

    def start_undo(self, transaction_id: str, states: Collection[State], reason: str) -> bool:
        """Move a transaction from one of the states to ``aborting``, with a reason; return False in any other state."""
        return self.index.transactions.move(transaction_id, states, State.ABORTING, error=reason)

    def load_reserved(self, transaction: Transaction) -> Transaction | None:
        """Return the current state of a reserved transaction; None if the index lost the reservation."""
        try:
            current = self.load(transaction.transaction_id)
        except TransactionNotFoundError:
            return None
        # Check the state, too: a repeated commit sets ``reserved`` beforehand, while the state is still open.
        return current if current.reserved and current.state is not State.OPEN else None
