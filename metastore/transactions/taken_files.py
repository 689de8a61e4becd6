"""LOAD DATA as a write: the user's own files are moved into a partition, and become visible together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.plan import Append, OverwritePartitions
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import BeginWrite, PlannedFormat
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.transactions.staging_locations import without_transaction_ids
from catalog_ext.metastore.transactions.write_protocol import NO_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.transactions.write_protocol import Transactions

OPERATION = "LOAD DATA"
_LONGEST_STEM = 100
_UNUSUAL = re.compile(r"[^\w.=+-]")


def take_files(
    transactions: Transactions,
    table: Table,
    partition: str,
    files: Sequence[Entry],
    *,
    replaces: bool,
    options: Mapping[str, str] = NO_OPTIONS,
    touches: Predicate | None = None,
) -> WriteOutcome:
    """Move files into a partition, creating it if necessary; all files become visible at one instant.

    The files are renamed; on S3 they are copied and the sources deleted. If the process dies after the reservation,
    recovery finishes the moves or moves every file back.

    ``table``: the table at the version that the statement read.
    ``partition``: the partition's name; ``''`` for an unpartitioned table.
    ``files``: the listed files; they are on the table's store.
    ``touches``: a bound predicate that is true for the partition; None if the write may touch any partition.

    Raises:
        ConflictError: Another writer replaced the partition in the meantime. Every file is at its source.
        StagedFileMissingError: A file is gone. All other files are at their sources.
        CatalogExtError: The write failed and is undone; see ``Transactions.commit``.
    """
    asked = OverwritePartitions() if replaces else Append()
    definition = table.definition
    request = BeginWrite(
        asked, OPERATION, this_process(), table, options=options, touches=touches, moves_user_files=True,
        planned=PlannedFormat(definition.format, definition.options),
    )  # fmt: skip
    number = transactions.begin(request).transaction_id
    taken = [
        StagedFile(
            partition, _name(file.location.name, number, i), file.size,
            source=str(file.location), modified_ms=file.modified_ms, etag=file.etag,
        )
        for i, file in enumerate(files)
    ]  # fmt: skip
    return transactions.commit(number, taken, recorded=0, static_partition=partition or None)


def _name(name: str, transaction_id: str, number: int) -> str:
    """Return the new name of a file: its own name with the transaction's id, which makes it unique.

    The new name is never that of a hidden file, even if the old name begins with an unusual character.
    """
    stem, dot, suffix = name.partition(".")
    # Replace the id of another transaction in the name: from now on the file belongs to this transaction.
    stem = without_transaction_ids(_UNUSUAL.sub("_", stem)[:_LONGEST_STEM]).lstrip("_.") or "file"
    suffix = without_transaction_ids(_UNUSUAL.sub("_", suffix)[-_LONGEST_STEM:])
    return f"{stem}-{transaction_id}-c{number:03d}{dot}{suffix}"
