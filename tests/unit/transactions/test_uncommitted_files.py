"""Files that a write has promoted and not committed: no table takes them in, no other write removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import DataDeletion, DropPartitions, RenamePartition
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.index_cases import local_index
from tests.kit.repair_cases import indexed, local_catalog, register
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import begin, crash_at, insert, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

K1 = parse_predicate("k = 1")
STATEMENTS: dict[str, Callable[[Stand], object]] = {
    "INSERT OVERWRITE": lambda stand: stand.write({"k=1": "overwritten\n"}, WriteKind.OVERWRITE_PARTITIONS),
    "DELETE": lambda stand: stand.engine.delete(stand.table(), K1, truncate=False),
    "TRUNCATE": lambda stand: stand.engine.delete(stand.table(), None, truncate=True),
    "DROP": lambda stand: stand.engine.command(
        stand.table(), DropPartitions(K1, DataDeletion.INSIDE), "DROP PARTITION"
    ),
    "RENAME": lambda stand: stand.engine.command(stand.table(), RenamePartition("k=1", "k=5"), "RENAME PARTITION"),
    "INSERT": lambda stand: stand.write({"k=1": "appended\n", "k=2": "2\n"}),
}


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_replacement_keeps_its_files_if_another_write_comes_first(
    tmp_path: Path, statement: str, external: bool
) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=external))
        stand.write({"k=1": "old\n"})
        new = stand.table().definition
        begun = stand.begin(WriteKind.CREATE_OR_REPLACE, stand.table(), definition=new)
        staged = stand.put(begun, {"k=1": "new\n", "k=2": "new, too\n"})
        with armed("promote.after", lambda _: STATEMENTS[statement](stand)):
            stand.engine.commit(begun.transaction_id, staged)
        assert stand.rows() == {"k=1": "new\n", "k=2": "new, too\n"}


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("taking", ["INSERT", "repair"])
def test_another_table_takes_in_nothing_that_can_be_undone(tmp_path: Path, around: bool, taking: str) -> None:
    root = tmp_path / "data"
    with local_catalog(tmp_path) as catalog:
        register(catalog, root / "y=1" if around else root, {"k": "INT"}, table="s.a")
        with pytest.warns(TableOverlapWarning):
            register(catalog, root, {"y": "INT", "k": "INT"} if around else {"k": "INT"}, table="s.b")
        insert(catalog, "k=1", table="s.a")
        catalog.repair_partitions("s.b")
        before = indexed(catalog, "s.b")
        begun = begin(catalog, table="s.a")
        file = stage(begun, "k=2")
        crash_at("promote.after", lambda: catalog.writes.transactions.commit(begun.transaction_id, [file]))
        if taking == "repair":
            catalog.repair_partitions("s.b")
        else:
            insert(catalog, "y=1/k=2" if around else "k=2", table="s.b")
        after = indexed(catalog, "s.b")
        assert file.name not in str(after)
        catalog.writes.transactions.undo(begun.transaction_id)
        assert indexed(catalog, "s.b") == after
        assert taking == "INSERT" or after == before
        assert catalog.repair_partitions("s.b", dry_run=True).in_sync
