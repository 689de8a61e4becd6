"""Deletion claims: vacuum records the files that it is about to delete, so that nothing registers them meanwhile.

A claim is a transaction in state ``committed`` whose removals are the files. ``registration_checks`` refuses to
register them. The vacuum finishes its claim (``IndexedTransactions.finish``) when the files are deleted; after a crash
``recover`` deletes them and finishes it. A finished claim says when files near the table were deleted, for repairs that
listed them before. It is forgotten with the versions of the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import DataDeletion
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.rules import lies_inside
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import transaction_files, transactions
from catalog_ext.metastore.index.read.file_lifetime import users_within
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.removals import RecordedDeletions
from catalog_ext.metastore.index.write.transaction_files import documents
from catalog_ext.metastore.index.write.transaction_rows import insert_deletion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.file_lifetime import FileUser
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class DeletionClaim:
    """Files that may be deleted.

    Attributes:
        transaction_id: What holds them; None where no file is left.
        users: The files that a living partition has, with the partition: they are not claimed.
    """

    transaction_id: str | None
    users: Mapping[str, FileUser]


class Deletions:
    """Files that transactions are to delete, or that a vacuum is deleting."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def complete(self, transaction_id: str) -> None:
        """Complete the delete that a committed write has deferred: then all its removals and messages are recorded."""
        complete(self._database, transaction_id=transaction_id)

    def of(self, transaction_id: str) -> Iterator[Removal]:
        """Yield what a committed transaction still has to delete, by absolute URIs, a document at a time."""
        self.complete(transaction_id)
        for payload in documents(self._database, transaction_id, removal=True):
            yield from map(removal_from_json, json.loads(payload))

    def forget(self, transaction_id: str) -> None:
        """Remove the list of what a committed transaction had to delete, and date the transaction after the deletion.

        A registration that listed files before that then compares them with the store.
        """
        t = transaction_files.c
        done = sa.delete(transaction_files).where(t.transaction_id == transaction_id, t.removal == 1)
        mine = sa.update(transactions).where(transactions.c.transaction_id == transaction_id)

        def work(connection: sa.Connection) -> None:
            if connection.execute(done).rowcount:
                connection.execute(mine.values(ended_at_ms=now_ms(connection)))

        self._database.write(work)

    def claim(self, table: Table, removals: Sequence[Removal], owner: str, staging: str) -> DeletionClaim:
        """Claim files that no living partition of any table has, under the lock of the table's row.

        Some thousands of files at most: the lock is held meanwhile.

        Raises:
            TableNotFoundError: The table is gone.
        """

        def work(connection: sa.Connection) -> DeletionClaim:
            row = lock_table(connection, table.table_id, str(table.identifier))
            users = users_within(connection, {removal.path for removal in removals})
            left = [removal for removal in removals if removal.path not in users]
            if not left:
                return DeletionClaim(None, users)
            is_inside = all(lies_inside(table, removal.path) for removal in left)
            deletes = DataDeletion.INSIDE if is_inside else DataDeletion.ALL
            claim = insert_deletion(
                connection, table.table_id, str(table.identifier), table.definition.location, deletes,
                operation=VACUUM, state=State.COMMITTED, owner=owner, staging=staging,
                version=row.table.version, now_ms=row.now_ms,
            )  # fmt: skip
            files = RecordedDeletions(connection, claim)
            for removal in left:
                files.add(removal)
            files.flush()
            return DeletionClaim(claim, users)

        return self._database.write(work)
