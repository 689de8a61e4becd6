"""Checks the names of files that tasks have staged, and records the files in the index, before the commit's steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.transactions.staging_locations import StagingLocations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.transactions.resources import Resources


def stage(
    resources: Resources,
    transaction: Transaction,
    files: Sequence[StagedFile],
    recorded: int | None = None,
    *,
    with_reserve: bool = False,
) -> None:
    """Record the files that tasks of an open transaction staged; with ``with_reserve``, only check them.

    ``recorded``: the number of files that were recorded before; None if the writer did not count.

    Raises:
        TransactionStateError: The transaction is not open any more.
        InvalidInputError: A file does not fit the transaction.
        StagedFileMissingError: The index lost files that were recorded before.
    """
    fault_point("stage.before")
    locations = StagingLocations(transaction.transaction_id, transaction.plan)
    for file in files:
        locations.check(file)
    if files and not with_reserve:
        resources.index.transaction_files.record(transaction.transaction_id, files, recorded)
    fault_point("stage.after")
