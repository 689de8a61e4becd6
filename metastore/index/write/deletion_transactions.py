"""The transactions of deletions that are no statements of the commit protocol: those of vacuum and of DROP TABLE."""

from __future__ import annotations

from catalog_ext.metastore.commit.plan import CheckedDrop, DataDeletion, DropPartitions, Promotion, WritePlan
from catalog_ext.metastore.commit.transaction import State, Transaction, new_transaction_id
from catalog_ext.metastore.predicates.tree import TRUE

_LEASE_MS = 600_000


def deletion(
    table_id: int, shown: str, location: str, deletes: DataDeletion, *,
    operation: str, state: State, owner: str, staging: str, version: int, now_ms: int,
) -> Transaction:  # fmt: skip
    """Return a transaction whose plan says where files are deleted. No partition, and no staging directory, goes.

    Args:
        table_id: The table's number.
        shown: Its name.
        location: Its directory.
        deletes: Whether all files lie in the directory.
        operation: For people.
        state: ``committed`` until the files are deleted, then ``finished``.
        owner: Names the process, for people.
        staging: The name of the table's staging directory.
        version: The table's version.
        now_ms: The database's time.
    """
    promotion = Promotion.UPLOAD if location.startswith("s3a:") else Promotion.RENAME
    plan = WritePlan(CheckedDrop(DropPartitions(TRUE, deletes)), location, staging, location, promotion)
    return Transaction(
        new_transaction_id(), table_id, shown, operation, state, owner, version, now_ms, now_ms + _LEASE_MS, plan,
        ended_at_ms=now_ms, version=version,
    )  # fmt: skip
