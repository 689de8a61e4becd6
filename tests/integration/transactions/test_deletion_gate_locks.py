"""The two sides of the deletion gate at the same moment, on each database: one of them gives way."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import AddPartitions, NewPartition
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, LocationNotFoundError, TableLayoutError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


class Stop:
    """A thread that calls ``here`` waits until ``go`` is set."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Event(), threading.Event()

    def here(self, *_: object) -> None:
        self.reached.set()
        assert self.go.wait(60)


@contextlib.contextmanager
def before_statement(index: Index, matches: Callable[[str, Any], bool], work: Callable[[], object]) -> Iterator[None]:
    """Call ``work`` once, before the first statement of any thread that matches."""
    due = [work]

    def listener(_: object, __: object, text: str, values: Any, *more: object) -> None:
        if due and matches(text, values):
            due.pop()()

    engine = index._database.engine
    sa.event.listen(engine, "before_cursor_execute", listener)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", listener)


class SharedDirectory:
    """A table whose overwrite deletes the file of k=1, and one that gets a partition in the directory of that file."""

    def __init__(self, index: Index, folder: Path, name: str) -> None:
        self.stand = Stand(index)
        self.losing, self.gaining = (TableIdentifier("s", f"{kind}_{name}") for kind in ("losing", "gaining"))
        self.folder = folder
        self.stand.create(definition(folder / "t", name=self.losing.name, external=True))
        self.stand.create(definition(folder / "b", name=self.gaining.name, external=True))
        self.stand.write({"k=1": "1\n"}, table=self.stand.table(self.losing))
        # SQLite lets one writer through at a time: there the other one waits, and this is how long a test waits for it.
        self.patience_s = 0.5 if index.url.startswith("sqlite") else 60

    def overwrite(self) -> None:
        self.stand.write({"k=1": "2\n"}, WriteKind.OVERWRITE_PARTITIONS, table=self.stand.table(self.losing))

    def register(self) -> None:
        asked = AddPartitions((NewPartition("k=1", f"file://{self.folder}/t/k=1"),))
        self.stand.engine.command(self.stand.table(self.gaining), asked, "ADD PARTITION")


def test_registration_fails_when_the_deletion_ends_while_it_is_looked_for(index: Index, tmp_path: Path) -> None:
    """The commit had found the overwrite in state ``committed``, and then no list of what it deletes."""
    shared = SharedDirectory(index, tmp_path, "ends")
    listed, deleted = Stop(), Stop()
    with ThreadPoolExecutor(2) as pool:
        with armed("check.after", listed.here):
            registering = pool.submit(shared.register)
            assert listed.reached.wait(60)
        with armed("clean.removed", deleted.here):
            deleting = pool.submit(shared.overwrite)
            assert deleted.reached.wait(60)
        (overwrite,) = index.transactions.all(states=(State.COMMITTED,))

        def end_deletion() -> None:
            deleted.go.set()
            wait([deleting], timeout=shared.patience_s)

        def reads_list(text: str, values: Any) -> bool:
            return "FROM transaction_files" in text and overwrite.transaction_id in str(values)

        with before_statement(index, reads_list, end_deletion):
            listed.go.set()
            error = registering.exception()
        deleting.result()
    assert isinstance(error, ConflictError), error
    assert shared.stand.rows(shared.gaining) == {}


def test_registration_fails_when_it_begins_during_the_commit_of_a_deletion(index: Index, tmp_path: Path) -> None:
    """The overwrite was dated before the begin of the command, which had listed the files before they were deleted."""
    shared = SharedDirectory(index, tmp_path, "began")
    committing, listed = Stop(), Stop()

    def ends(text: str, _: object) -> bool:
        return text.startswith("UPDATE transactions") and "outcome" in text

    at_listing = armed("check.after", listed.here, nth=2)
    with ThreadPoolExecutor(2) as pool, before_statement(index, ends, committing.here), at_listing:
        deleting = pool.submit(shared.overwrite)
        assert committing.reached.wait(60)
        time.sleep(0.01)
        registering = pool.submit(shared.register)
        listed.reached.wait(shared.patience_s)
        committing.go.set()
        deleting.result()
        listed.go.set()
        error = registering.exception()
    # On SQLite the command begins after the commit.
    assert isinstance(error, ConflictError) or index.url.startswith("sqlite"), error
    # Raises where a row's file is gone.
    shared.stand.rows(shared.gaining)


def test_load_fails_if_its_files_are_registered_during_its_reserve(index: Index, tmp_path: Path) -> None:
    """The files lie near no table: both commits had looked for the other one, and neither had seen it."""
    shared = SharedDirectory(index, tmp_path, "load")
    stand, landed = shared.stand, tmp_path / "in" / "000000_0.csv"
    landed.parent.mkdir()
    landed.write_text("7\n")
    (entry,) = stand.storage.list_directory(f"file://{tmp_path}/in")
    looked = Stop()

    def register() -> None:
        asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/in"),))
        stand.engine.command(stand.table(shared.gaining), asked, "ADD PARTITION")

    def load() -> None:
        take_files(stand.engine, stand.table(shared.losing), "k=7", [entry], replaces=False)

    def writes_row(text: str, _: object) -> bool:
        return text.startswith("INSERT INTO partitions")

    with ThreadPoolExecutor(2) as pool, before_statement(index, writes_row, looked.here):
        registering = pool.submit(register)
        assert looked.reached.wait(60)
        loading = pool.submit(load)
        wait([loading], timeout=min(shared.patience_s, 10))
        looked.go.set()
        errors = [registering.exception(), loading.exception()]
    # On SQLite the load waits in ``reserve``, whose own check then finds the registered file. Elsewhere it is reserved
    # meanwhile, and ``PartitionMoves._require_unregistered`` has to refuse it.
    said = (
        " has registered it since this statement checked"
        if index.url.startswith("sqlite")
        else " uses too. Nothing was changed;"
    )
    assert isinstance(errors[1], ConflictError), errors
    assert said in errors[1].message, errors
    # Raises where a row's file is gone.
    assert (stand.rows(shared.gaining), landed.exists()) in (({"k=7": "7\n"}, True), ({}, True))
