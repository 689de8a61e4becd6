"""Writes from Python through the commit protocol, as the connector makes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CommitStateUnknownError
from catalog_ext.writes.writes import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import BegunWrite, WriteOutcome


class Crash(BaseException):
    """The end of a writer's process, as far as the writer knows: nothing of its code runs after it."""


def crash_at(point: str, write: Callable[[], object]) -> None:
    """Let a write's process be gone at a point of the protocol."""

    def crash(_: str) -> None:
        raise Crash

    # A writer that lives on long enough says that it does not know what becomes of its transaction.
    with armed(point, crash), pytest.raises((Crash, CommitStateUnknownError)):
        write()


def begin(
    catalog: Catalog, kind: WriteKind = WriteKind.APPEND, *, table: str = "s.t", predicate: object = None,
    **options: str,
) -> BegunWrite:  # fmt: skip
    """A transaction on the table, read at its newest version; ``options`` by their keys with ``_`` for ``-``."""
    there = catalog.load_table(table)
    batch = Batch("INSERT", "test@host:1", options={key.replace("_", "-"): text for key, text in options.items()})
    return catalog.writes.begin(kind, there.table_id, there.version, batch, predicate=predicate)[0]


def stage(begun: BegunWrite, partition: str, content: bytes = b"x\n", *, number: int = 0) -> StagedFile:
    """A file of the partition that no reader sees yet."""
    own = begun.partition_locations.get(partition)
    folder = Path((own or begun.plan.location).removeprefix("file://")) / begun.plan.staging / begun.transaction_id
    folder = folder if own else folder / partition
    folder.mkdir(parents=True, exist_ok=True)
    name = f"part-{number:05d}-{begun.transaction_id}-a0-c000.csv"
    (folder / name).write_bytes(content)
    return StagedFile(partition, name, len(content), content.count(b"\n"))


def insert(
    catalog: Catalog, *partitions: str, kind: WriteKind = WriteKind.APPEND, table: str = "s.t",
    predicate: object = None, **options: str,
) -> WriteOutcome:  # fmt: skip
    """A whole write of a file to each of the partitions."""
    begun = begin(catalog, kind, table=table, predicate=predicate, **options)
    staged = [stage(begun, partition) for partition in partitions]
    return catalog.writes.transactions.commit(begun.transaction_id, staged)
