"""The two sides of the deletion gate at the same moment, on each database: one of them gives way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.plan import AddPartitions, NewPartition, WriteKind
from catalog_ext.metastore.errors import ConflictError, LocationNotFoundError, TableLayoutError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from tests.write_cases import Stand, definition

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.metastore.index import Index

ROUNDS = 8
REFUSED = (ConflictError, TableLayoutError, LocationNotFoundError)
"""The last one of an ADD PARTITION at a directory that vacuum has emptied and removed."""


@pytest.mark.parametrize("relocated", [False, True], ids=["overwrite", "vacuum"])
def test_files_are_deleted_or_registered_and_never_both(index: Index, tmp_path: Path, relocated: bool) -> None:
    stand = Stand(index)
    # Tests of a module share the index of each database.
    mine, other = (TableIdentifier("s", f"{name}_{int(relocated)}") for name in ("losing", "gaining"))
    stand.create(definition(tmp_path / "t", name=mine.name, external=True))
    stand.create(definition(tmp_path / "b", name=other.name, external=True))
    stand.write({f"k={i}": "1\n" for i in range(ROUNDS)}, table=stand.table(mine))
    start = threading.Barrier(2)

    def delete(i: int) -> None:
        start.wait()
        if relocated:
            stand.engine.vacuum(stand.table(mine), 0)
        else:
            stand.write({f"k={i}": "2\n"}, WriteKind.OVERWRITE_PARTITIONS, table=stand.table(mine))

    def register(i: int) -> None:
        start.wait()
        asked = AddPartitions((NewPartition(f"k={i}", f"file://{tmp_path}/t/k={i}"),))
        stand.engine.command(stand.table(other), asked, "ADD PARTITION")

    with ThreadPoolExecutor(2) as pool:
        for i in range(ROUNDS):
            if relocated:
                relocate = {"overwrite-mode": "relocate"}
                table = stand.table(mine)
                stand.write({f"k={i}": "2\n"}, WriteKind.OVERWRITE_PARTITIONS, table=table, options=relocate)
            both = [pool.submit(delete, i), pool.submit(register, i)]
            for one in both:
                error = one.exception()
                assert error is None or isinstance(error, REFUSED), error
            # Raises where a row's file is gone.
            stand.rows(other)
            assert set(stand.rows(mine)) == {f"k={i}" for i in range(ROUNDS)}
