"""The state of a commit. Each of the six steps of the commit takes a ``Commit`` and returns it with its own result.

``docs/spec/commit-protocol.md`` describes the steps: check, reserve, promote, apply, publish, clean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.staged_files import StagedFile, StoredFile
    from catalog_ext.metastore.commit.transaction import State, Transaction
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """The options of a commit call, besides the files.

    Attributes:
        static_partition: The partition of a fully static PARTITION clause, which is registered also without rows.
        watermark_ms: The watermark of a streaming write, milliseconds since the epoch.
        final: Whether the streaming query has ended by itself. All files that wait for the time of their partition then
            become visible.
    """

    static_partition: str | None = None
    watermark_ms: int | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A running commit.

    Attributes:
        transaction: The transaction after the last step. From ``check`` on its plan contains the check's findings.
        options: The options of the commit call.
        files: The files that the call sends.
        recorded: The number of files recorded before the call (``TransactionFiles.record``); None if unknown.
        all_files: All staged files of the transaction, if the call has sent all of them; ``reserve`` records them in
            the index. None if the steps read them from the index.
        table: The transaction's table, as loaded with the transaction; None if the table must be loaded again, or does
            not exist.
        is_retry: Whether an earlier call got no answer. That call may have completed some steps.
        by_owner: Whether the writer runs the commit; False for a recovery by another process.
        promoted: The partitions in which files of this commit may have their final names. ``promote`` adds to it before
            it touches a file, so that the owner can undo a commit that a restored index has forgotten.
        stored: The store's data about each promoted file, by partition and name.
        leftovers: Files to delete in addition to the files that the commit replaces.
        is_staging_removed: Whether ``promote`` has removed the staging directory. ``apply`` then moves a commit without
            files to delete to ``finished``.
        duplicate_version: The version that committed this batch of a stream before; None if this is its first commit.
    """

    transaction: Transaction
    options: CommitOptions = CommitOptions()
    files: Sequence[StagedFile] = ()
    recorded: int | None = None
    all_files: Sequence[StagedFile] | None = None
    table: Table | None = None
    is_retry: bool = False
    by_owner: bool = True
    promoted: set[str] = field(default_factory=set)
    stored: Mapping[tuple[str, str], StoredFile] = field(default_factory=dict)
    leftovers: Sequence[Removal] = ()
    is_staging_removed: bool = False
    duplicate_version: int | None = None

    @property
    def transaction_id(self) -> str:
        """The transaction's id."""
        return self.transaction.transaction_id

    @property
    def plan(self) -> WritePlan:
        """The transaction's plan."""
        return self.transaction.plan

    @property
    def state(self) -> State:
        """The state of the transaction."""
        return self.transaction.state

    @property
    def expected_records(self) -> int | None:
        """The number of files that the index must have recorded at ``reserve``; None if it is not checked."""
        if self.recorded is None or self.all_files is not None:
            return self.recorded
        return self.recorded + len(self.files)

    @property
    def unrecorded_files(self) -> Sequence[StagedFile]:
        """The files of the call that the index may not have recorded before ``reserve``; an undo deletes them, too."""
        return self.files if self.all_files is not None or self.is_retry else ()
