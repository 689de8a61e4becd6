"""Deletion claims: vacuum records the files that it is about to delete, so that nothing registers them meanwhile.

A claim is a transaction in state ``committed`` whose removals are the files. ``registration_checks`` refuses to
register them. The vacuum finishes its claim when the files are deleted; after a crash ``recover`` deletes them and
finishes it. A finished claim says when files near the table were deleted, for repairs that listed them before. It is
forgotten with the versions of the table.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import CheckedDrop, DataDeletion, DropPartitions, Promotion, WritePlan
from catalog_ext.metastore.commit.removals import removal_from_json
from catalog_ext.metastore.commit.rules import lies_inside
from catalog_ext.metastore.commit.transaction import VACUUM, State, Transaction
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import transaction_files, transactions
from catalog_ext.metastore.index.read.needed_files import users_within
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.removals import Removals
from catalog_ext.metastore.index.write.transaction_files import documents
from catalog_ext.metastore.index.write.transaction_rows import insert_within
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.needed_files import FileUser
    from catalog_ext.metastore.model.tables import Table

_LEASE_MS = 600_000


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
        """Remove the list of what a committed transaction had to delete."""
        t = transaction_files.c
        done = sa.delete(transaction_files).where(t.transaction_id == transaction_id, t.removal == 1)
        self._database.write(lambda connection: connection.execute(done))

    def claim(self, table: Table, removals: Sequence[Removal], owner: str, staging: str) -> DeletionClaim:
        """Claim files that no living partition of any table has, under the lock of the table's row.

        Args:
            table: The table that they belonged to.
            removals: The files, some thousands at most.
            owner: Names the process, for people.
            staging: The name of the table's staging directory.

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
            claim = _transaction(table, deletes, row["version"], row["now_ms"], owner, staging)
            insert_within(connection, claim)
            files = Removals(connection, claim.transaction_id)
            for removal in left:
                files.add(removal)
            files.flush()
            return DeletionClaim(claim.transaction_id, users)

        return self._database.write(work)

    def finish_claim(self, transaction_id: str) -> None:
        """Finish a claim: its files are deleted, or stay for good."""

        def work(connection: sa.Connection) -> None:
            files, own = transaction_files.c, transactions.c
            connection.execute(sa.delete(transaction_files).where(files.transaction_id == transaction_id))
            now = now_ms(connection)
            finished = {"state": str(State.FINISHED), "ended_at_ms": now, "expires_at_ms": now + _LEASE_MS}
            connection.execute(sa.update(transactions).where(own.transaction_id == transaction_id).values(finished))

        self._database.write(work)


def _transaction(table: Table, deletes: DataDeletion, version: int, now: int, owner: str, staging: str) -> Transaction:
    location = table.definition.location
    promotion = Promotion.UPLOAD if location.startswith("s3a:") else Promotion.RENAME
    # The plan says where files are deleted. No partition, and no staging directory, goes with them.
    change = CheckedDrop(DropPartitions(TRUE, deletes))
    return Transaction(
        secrets.token_hex(16), table.table_id, str(table.identifier), VACUUM, State.COMMITTED, owner, version, now,
        now + _LEASE_MS, WritePlan(change, location, staging, location, promotion), ended_at_ms=now,
        version=version,
    )  # fmt: skip
