"""Keeps a repair from registering again what has expired: an external table's files outlive its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_expiry import Expiry
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.scan.scratch import Scratch

_AT_ONCE = 1000


def leave_out_expired(scratch: Scratch, table: Table, now_ms: Callable[[], int]) -> None:
    """Take unregistered partitions that have expired out of what was listed, and say so in the report.

    Args:
        scratch: The repair's.
        table: The table.
        now_ms: Returns the time of the index's database, which is asked for where partitions expire at all.

    Raises:
        InvalidInputError: The table's retention is no duration, or its partitions have no times.
    """
    definition = table.definition
    if definition.table_type is not TableType.EXTERNAL or not definition.partition_columns:
        return
    expiry = Expiry.of(definition)
    if expiry is None:
        return
    new = "SELECT name FROM listed_partitions WHERE name NOT IN (SELECT name FROM indexed_partitions)"
    now = now_ms()
    found = [name for (name,) in scratch.rows(new) if expiry.expired(name, now)]
    for chunk in batched(found, _AT_ONCE):
        rows = [(name, name, 0, 0, f"not registered again, {expiry.reason}") for name in chunk]
        scratch.insert("skipped", rows, columns=5, ignore=True)
        marks = ",".join("?" * len(chunk))
        for listed in ("listed_files", "listed_partitions"):
            scratch.execute(f"DELETE FROM {listed} WHERE name IN ({marks})", tuple(chunk))
