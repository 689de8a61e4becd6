"""What lists files and registers them later registers none that a statement of another table deletes meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    NewPartition,
    RelocatePartition,
)
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

B = TableIdentifier("s", "b")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """The external table t with rows, and b over the same folder, without partitions yet."""
    with local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        for name in ("t", "b"):
            stand.create(definition(tmp_path / "t", name=name, external=True))
        stand.write({"k=1": "1\n", "k=2": "2\n"})
        yield catalog


def overwrite(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC)


def delete(stand: Stand) -> None:
    stand.engine.delete(stand.table(), K1, truncate=False)


def replace_table(stand: Stand) -> None:
    made = stand.table().definition
    stand.write({"k=5": "9\n"}, WriteKind.REPLACE, definition=made, table=stand.table(), operation="RTAS")


def vacuum(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC, options=RELOCATE)
    time.sleep(0.005)
    stand.engine.vacuum(stand.table(), 0)


STATEMENTS = [overwrite, delete, replace_table, vacuum]


def before_commit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, statement: Callable[[], object]) -> None:
    """Run a whole statement once, after the next registration has listed the store and before it commits."""
    commit, index = catalog.index.commits.apply_changes, catalog.index

    def late(*given: Any, **named: Any) -> object:
        monkeypatch.setattr(index.commits, "apply_changes", commit)
        statement()
        return commit(*given, **named)

    monkeypatch.setattr(index.commits, "apply_changes", late)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_repair_registers_no_file_that_was_deleted_after_its_listing(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, statement: Callable[[Stand], None]
) -> None:
    stand = Stand(catalog.index)
    before_commit(catalog, monkeypatch, lambda: statement(stand))
    report = catalog.repair_partitions("s.b")
    rows = stand.rows(B)
    assert "1\n" not in rows.values()
    assert [entry.partition for entry in report.skipped if "repair again" in entry.reason][:1] == ["k=1"]
    if statement is not replace_table:
        assert rows == {"k=2": "2\n"}, "the store has these rows still"
    catalog.repair_partitions("s.b")
    stand.rows(B)


def test_repair_registers_files_that_a_statement_of_another_table_left(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(catalog.index)
    stand.write({"k=3": "3\n"})
    before_commit(catalog, monkeypatch, lambda: stand.write({"k=3": "9\n"}, DYNAMIC))
    report = catalog.repair_partitions("s.b")
    assert [entry.partition for entry in report.skipped] == ["k=3"]
    assert stand.rows(B) == {"k=1": "1\n", "k=2": "2\n"}


@pytest.mark.parametrize("statement", [overwrite, delete, replace_table])
def test_repair_skips_only_partitions_that_another_statement_deletes(
    catalog: Catalog, statement: Callable[[Stand], None]
) -> None:
    """A dead overwrite of one partition of another table stopped the whole repair."""
    stand = Stand(catalog.index)
    crash_at("reserve.after", lambda: statement(stand))
    report = catalog.repair_partitions("s.b")
    left = {"k=1", "k=2"} if statement is replace_table else {"k=1"}
    assert {entry.partition for entry in report.skipped} == left
    assert "deletes or moves" in report.skipped[0].reason
    assert stand.rows(B) == {name: f"{name[2:]}\n" for name in {"k=1", "k=2"} - left}
    stand.engine.recover(older_than_s=0)
    stand.rows(B)


def test_repair_of_the_own_table_registers_no_file_that_vacuum_deletes(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vacuum deletes replaced files, and forgets that they were replaced, while a repair compares its listing."""
    stand = Stand(catalog.index)
    stand.write({"k=1": "9\n"}, DYNAMIC, options=RELOCATE)
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
    time.sleep(0.005)
    ended = catalog.index.ended_files.pages

    def late(*given: Any, **named: Any) -> object:
        monkeypatch.setattr(catalog.index.ended_files, "pages", ended)
        stand.engine.vacuum(stand.table(), 0)
        return ended(*given, **named)

    monkeypatch.setattr(catalog.index.ended_files, "pages", late)
    catalog.repair_partitions("s.t")
    assert stand.rows() == {"k=2": "2\n"}


def test_command_is_refused_for_files_of_a_table_that_is_being_replaced(catalog: Catalog, tmp_path: Path) -> None:
    """REPLACE TABLE has asked who has its files; between that and its commit nothing may register them."""
    stand = Stand(catalog.index)
    crash_at("reserve.after", lambda: replace_table(stand))
    asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/t/k=1"),))
    with pytest.raises(ConflictError, match="RTAS"):
        stand.engine.command(stand.table(B), asked, "ADD PARTITION")
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == {"k=5": "9\n"}


def test_commands_of_other_tables_do_not_refuse_each_other(catalog: Catalog, tmp_path: Path) -> None:
    """A DROP PARTITION that had ended anywhere in the index made every ADD PARTITION under way fail."""
    stand = Stand(catalog.index)
    stand.create(definition(tmp_path / "far", name="far"))
    far = TableIdentifier("s", "far")
    stand.write({"k=1": "1\n"}, table=stand.table(far))

    reached: list[str] = []

    def meanwhile(point: str) -> None:
        reached.append(point)
        if len(reached) == 1:
            asked = DropPartitions(K1, DataDeletion.INSIDE)
            stand.engine.command(stand.table(far), asked, "DROP PARTITION")
            made = definition(tmp_path / "new", name="new")
            stand.write({"k=1": "1\n"}, WriteKind.CREATE, definition=made, operation="CTAS")

    asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/t/k=1"),))
    with armed("check.after", meanwhile):
        stand.engine.command(stand.table(B), asked, "ADD PARTITION")
    assert stand.rows(B) == {"k=7": "1\n"}


def test_predicate_of_a_delete_meets_the_directory_that_a_command_gives(catalog: Catalog, tmp_path: Path) -> None:
    """DELETE failed with "is not a partition name" while SET LOCATION or ADD PARTITION … LOCATION was under way."""
    stand = Stand(catalog.index)
    (tmp_path / "else").mkdir()
    asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/else"),))
    crash_at("reserve.after", lambda: stand.engine.command(stand.table(), asked, "ADD PARTITION"))
    delete(stand)
    assert stand.rows() == {"k=2": "2\n"}
    stand.engine.recover(older_than_s=0)
    assert {t.state for t in catalog.index.transactions.all()} <= {State.FINISHED, State.ABORTED}


@pytest.mark.parametrize("statement", [overwrite, delete])
@pytest.mark.parametrize("place", ["t/k=1", "else"])
@pytest.mark.parametrize("first", ["statement", "command"])
def test_directory_is_not_shared_while_its_partition_is_replaced(
    catalog: Catalog, tmp_path: Path, statement: Callable[[Stand], None], place: str, first: str
) -> None:
    """DELETE was not met at a default place, and no statement at a partition's own location."""
    stand, asked = Stand(catalog.index), AddPartitions((NewPartition("k=7", f"file://{tmp_path}/{place}"),))
    if place == "else":
        (tmp_path / "else").mkdir()
        (tmp_path / "else" / "x.csv").write_text("1\n")
        asked_place = RelocatePartition("k=1", f"file://{tmp_path}/else")
        stand.engine.command(stand.table(), asked_place, "SET LOCATION")

    def command() -> None:
        stand.engine.command(stand.table(), asked, "ADD PARTITION")

    begins, meets = (lambda: statement(stand), command) if first == "statement" else (command, lambda: statement(stand))
    crash_at("reserve.after", begins)
    with pytest.raises(ConflictError, match="Another writer was first"):
        meets()
    stand.engine.recover(older_than_s=0)
    stand.rows()
