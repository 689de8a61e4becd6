"""The catalog's own part in writes: status, history, recover and vacuum, in Python, as commands and as procedures."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.cli.main import main
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidConfigurationError,
    InvalidInputError,
    OperationNotSupportedError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import PartitionClauses
from catalog_ext.metastore.predicates.partition_specs import KeyComparison
from catalog_ext.metastore.predicates.tree import Comparison, IsNull, Not, Operator
from catalog_ext.metastore.runtime.processes import this_host
from catalog_ext.metastore.runtime.users import acting_for
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from catalog_ext.metastore.transactions.vacuum import Vacuum
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import EU, US, catalog_of_files, indexed, local_catalog, register, skipped, walked, write
from tests.kit.writes import begin, crash_at, insert, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.model.tables import Table

LATE = {
    "sink.partition-commit.trigger": "partition-time",
    "partition.time-extractor.timestamp-pattern": "$ds 00:00:00",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, root, f"{EU}/old.csv") as catalog:
        yield catalog


@pytest.fixture
def run(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The command line over the catalog's index: exit code and standard output."""
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "none")
    monkeypatch.setenv("CATALOG_EXT_INDEX", str(tmp_path / "index.db"))
    monkeypatch.setenv("CATALOG_EXT_WAREHOUSE", str(tmp_path / "warehouse"))

    def run(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        return code, capsys.readouterr().out

    return run


def crash(catalog: Catalog, point: str, *partitions: str) -> None:
    """A write whose process is gone at a point of the protocol."""
    crash_at(point, lambda: insert(catalog, *partitions))


def call(catalog: Catalog, name: str, **arguments: object) -> list[dict[str, Any]]:
    result = find_procedure(name).call(catalog, arguments)
    return [row for batch in result.batches for row in batch.to_pylist()]


def test_history_and_transactions_say_what_writes_did(catalog: Catalog) -> None:
    insert(catalog, EU, US)
    newest, repair, *_ = catalog.history("s.t")
    assert (newest.version, newest.operation, repair.operation) == (2, "INSERT", "repair")
    assert newest.summary["files_added"] == 2
    (transaction,) = catalog.list_transactions("s.t")
    assert (transaction.state, transaction.version) == (State.FINISHED, 2)
    for ask in (catalog.history, catalog.list_transactions, catalog.status, catalog.recover, catalog.vacuum):
        with pytest.raises(TableNotFoundError):
            ask("s.none")


def _history(catalog: Catalog) -> dict[str, dict[str, Any]]:
    rows = catalog.index.history.rows(catalog.load_table("s.t")).read_all().to_pylist()
    return {row["operation"]: row for row in reversed(rows)}


def test_the_history_says_what_went_and_whose_doing_it_was(catalog: Catalog, root: Path) -> None:
    repaired = _history(catalog)["repair"]
    assert (repaired["rows"], repaired["bytes"], repaired["bytes_removed"]) == (None, 1, 0)
    assert {row["user"] for row in _history(catalog).values()} == {getpass.getuser()}
    with acting_for("alice"):
        insert(catalog, US)
        insert(catalog, US)
        there = catalog.load_table("s.t")
        catalog.writes.delete(there.table_id, there.version, Comparison(Operator.EQ, "region", "us"), truncate=False)
    gone = _history(catalog)["DELETE"]
    assert (gone["files_removed"], gone["rows"], gone["bytes"], gone["user"]) == (2, 0, 0, "alice")
    assert (gone["rows_removed"], gone["bytes_removed"]) == (2, 4)
    assert (_history(catalog)["INSERT"]["rows"], _history(catalog)["INSERT"]["user"]) == (1, "alice")
    (root / EU / "old.csv").write_text("1\n2\n")
    (root / EU / "new.csv").write_text("3\n")
    catalog.repair_partitions("s.t")
    changed = _history(catalog)["repair"]
    assert (changed["bytes"], changed["bytes_removed"], changed["rows_removed"]) == (6, 1, None)
    (root / EU / "old.csv").unlink()
    catalog.repair_partitions("s.t")
    changed = _history(catalog)["repair"]
    assert (changed["bytes"], changed["bytes_removed"]) == (0, 4)


def test_a_recovered_write_is_its_owners(catalog: Catalog) -> None:
    with acting_for("alice"):
        crash(catalog, "reserve.after", US)
    with acting_for("bob"):
        catalog.recover(older_than=0)
    assert _history(catalog)["INSERT"]["user"] == "alice"


def test_status_distinguishes_live_writes_from_expired_ones(catalog: Catalog) -> None:
    assert catalog.status() == []
    live = begin(catalog)
    crash(catalog, "reserve.after", US)
    by_id = {entry.id: entry for entry in catalog.status("s.t")}
    assert len(by_id) == 2
    assert {e.kind for e in by_id.values()} == {"transaction"}
    assert by_id[live.transaction_id].state == "open (live)"
    assert {e.state for e in by_id.values()} == {"open (live)", "reserved (live)"}
    assert catalog.index.transactions.extend_lease(live.transaction_id, 1)
    expired = next(e for e in catalog.status() if e.id == live.transaction_id)
    assert expired.state == "open (expired)"
    assert "recover undoes it" in expired.detail


def test_dead_owner_on_this_host_is_distinguished_from_a_live_one(
    catalog: Catalog, run: Callable[..., tuple[int, str]]
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = this_host()
    name, machine = host.split("#")
    owners = {
        f"{host}:{gone.pid}": "dead",
        f"local-1@{host}:{gone.pid}": "dead",
        f"{host}:{os.getpid()}": "live",
        f"elsewhere-{host}:{gone.pid}": "live",
        # Of another container of this name, and of one that has not said in which it was.
        f"{name}#{machine[::-1]}x:{gone.pid}": "live",
        f"{name}:{gone.pid}": "live",
        "another": "live",
    }
    there = catalog.load_table("s.t")
    begun = {}
    for owner, state in owners.items():
        transaction, _ = catalog.writes.begin(
            WriteKind.APPEND, there.table_id, there.version, Batch("INSERT", owner, None, None)
        )
        begun[transaction.transaction_id] = f"open ({state})"
    assert {e.id: e.state for e in catalog.status("s.t")} == begun
    dead = next(e for e in catalog.status() if e.state == "open (dead)")
    assert "its process is gone: recover undoes it in " in dead.detail
    report = catalog.recover("s.t")
    assert report.transactions == ()
    assert {t.transaction_id for t in report.waiting} == set(begun)
    assert {t.action for t in report.waiting} == {"waits"}
    assert sum("its process is gone; its lease lasts for " in (t.error or "") for t in report.waiting) == 2
    assert {r["transaction"] for r in call(catalog, "recover") if r["action"] == "waits"} == set(begun)
    code, text = run("recover")
    assert (code, text.splitlines()[:2]) == (
        0, ["0 transactions", "7 writes left alone, as their leases are not over:"],
    )  # fmt: skip
    assert "catalog-ext recover --older-than 0s" in text.splitlines()[-1]
    assert len(json.loads(run("recover", "--json")[1])["waiting"]) == 7
    assert len(catalog.recover(older_than="0s").transactions) == 7
    assert catalog.recover().waiting == ()


def test_status_shows_what_the_metastore_has_not_taken_and_what_waits(tmp_path: Path) -> None:
    with local_catalog(tmp_path, metastore="thrift://127.0.0.1:1") as catalog:
        register(catalog, tmp_path / "t")
        assert insert(catalog, EU).pending_deliveries > 0, "the write succeeds, and says what is pending"
        deliveries = catalog.status("s.t")
        assert {(e.kind, e.table, e.state) for e in deliveries} == {("delivery", "s.t", "pending")}
        first = catalog.status()[0]
        assert (first.kind, first.table, first.state) == ("delivery", "s", "failed")
        assert "; tried " in first.detail
        assert "sync_partitions for the metastore" in deliveries[-1].detail
        catalog.alter_table_properties("s.t", LATE)
        there = catalog.load_table("s.t")
        batch = Batch("STREAMING", "test@host:1", "query", 1)
        begun, _ = catalog.writes.begin(WriteKind.APPEND, there.table_id, there.version, batch)
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, US)], watermark_ms=0)
        (waiting,) = [e for e in catalog.status() if e.kind == "waiting"]
        assert (waiting.table, waiting.id, waiting.state) == ("s.t", US, "waiting")
        assert waiting.detail.startswith("1 file ")
        assert US not in indexed(catalog)
        assert [e for e in catalog.repair_partitions("s.t") if e.action != "skip"] == []


def test_table_with_waiting_rows_is_unregistered_after_their_commit(catalog: Catalog, root: Path) -> None:
    catalog.alter_table_properties("s.t", LATE)
    there = catalog.load_table("s.t")
    batch = Batch("STREAMING", "test@host:1", "query", 1)
    begun, _ = catalog.writes.begin(WriteKind.APPEND, there.table_id, there.version, batch)
    staged = stage(begun, US)
    catalog.writes.transactions.commit(begun.transaction_id, [staged], watermark_ms=0)
    with pytest.raises(ConflictError, match=rf"Rows of a stream .* such as '{US}'.*release-waiting s\.t"):
        catalog.unregister_table("s.t")
    assert [p.application for p in catalog.release_waiting("s.t", dry_run=True).partitions] == ["query"]
    (released,) = catalog.release_waiting("s.t", application="query").partitions
    assert (released.partition, released.files) == (US, 1)
    catalog.unregister_table("s.t")
    assert (root / US / staged.name).exists()


def epoch(catalog: Catalog, number: int = 1) -> StagedFile:
    """An epoch of a stream whose rows wait for their partition to be due."""
    there = catalog.load_table("s.t")
    batch = Batch("STREAMING", "test@host:1", "query", number, options={"transaction.lease": "1s"})
    begun, _ = catalog.writes.begin(WriteKind.APPEND, there.table_id, there.version, batch)
    staged = stage(begun, US)
    catalog.writes.transactions.commit(begun.transaction_id, [staged], watermark_ms=0)
    return staged


def test_what_a_dead_epoch_keeps_back_is_not_unregistered(catalog: Catalog, root: Path) -> None:
    catalog.alter_table_properties("s.t", LATE)
    crash_at("reserve.after", lambda: epoch(catalog))
    (dead,) = catalog.list_transactions("s.t")
    catalog.index.transactions.extend_lease(dead.transaction_id, 0)
    with pytest.raises(ConflictError, match=r"Rows of a stream .*release-waiting s\.t"):
        catalog.unregister_table("s.t")
    (released,) = catalog.release_waiting("s.t").partitions
    assert (released.partition, released.files, released.rows) == (US, 1, 1)
    catalog.unregister_table("s.t")
    assert [path.read_bytes() for path in (root / US).glob("part-*")] == [b"x\n"]


def test_what_an_epoch_keeps_back_meanwhile_is_not_unregistered(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.alter_table_properties("s.t", LATE)
    drop_table = catalog.index.tables.drop

    def raced(*asked: Any, **how: Any) -> Table:
        monkeypatch.undo()
        epoch(catalog)
        return drop_table(*asked, **how)

    monkeypatch.setattr(catalog.index.tables, "drop", raced)
    with pytest.raises(ConflictError, match=r"Rows of a stream .*release-waiting s\.t"):
        catalog.unregister_table("s.t")
    assert [one.rows for one in catalog.release_waiting("s.t").partitions] == [1]
    assert [path.read_bytes() for path in (root / US).glob("part-*")] == [b"x\n"]


def test_recover_finishes_what_was_reserved_and_undoes_the_rest(catalog: Catalog, root: Path) -> None:
    crash(catalog, "reserve.after", US)
    opened = begin(catalog)
    stage(opened, EU)
    assert catalog.recover("s.t").transactions == (), "their leases are not over"
    before = indexed(catalog)
    preview = catalog.recover("s.t", older_than="0s", dry_run=True).transactions
    assert len(preview) == 2
    assert indexed(catalog) == before
    assert [t.action for t in preview] == ["would finish", "would undo"]
    done = catalog.recover(older_than=0).transactions
    assert [t.action for t in done] == ["finished", "undone"]
    assert [t.transaction_id for t in done] == [t.transaction_id for t in preview]
    assert all(t.table == "s.t" and t.owner == f"{getpass.getuser()}/test@host:1" for t in done)
    assert set(indexed(catalog)) == {EU, US}
    assert not (root / "_catalog_ext_staging").exists()
    assert catalog.status() == []


def test_a_table_that_was_to_be_created_is_recovered_by_its_name(catalog: Catalog) -> None:
    definition = catalog.load_table("s.t").definition
    made = replace(definition, identifier=TableIdentifier("s", "made"), table_type=TableType.MANAGED)

    def create() -> None:
        begun, _ = catalog.writes.begin_creation(WriteKind.CREATE, made, None, Batch("CTAS", "test@host:1"))
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, EU)])

    crash_at("promote.after", create)
    assert [e.table for e in catalog.status()] == ["s.made"]
    assert [t.action for t in catalog.recover("s.made", older_than=0).transactions] == ["finished"]
    assert set(indexed(catalog, "s.made")) == {EU}


def test_a_creation_that_comes_too_late_leaves_the_other_table_alone(catalog: Catalog) -> None:
    definition = catalog.load_table("s.t").definition
    made = replace(definition, identifier=TableIdentifier("s", "made"), table_type=TableType.MANAGED)
    begun, whole = catalog.writes.begin_creation(WriteKind.CREATE, made, None, Batch("CTAS", "test@host:1"))
    staged = stage(begun, EU)
    catalog.create_table(made)
    with pytest.raises(TableAlreadyExistsError):
        catalog.writes.transactions.commit(begun.transaction_id, [staged])
    assert indexed(catalog, "s.made") == {}
    assert os.listdir(whole.location.removeprefix("file://")) == []


@pytest.mark.parametrize("older_than", ["soon", -1, "-1s", float("nan")])
def test_malformed_duration_is_refused(catalog: Catalog, older_than: str | float) -> None:
    with pytest.raises(InvalidInputError, match="older_than"):
        catalog.recover("s.t", older_than=older_than)


def actions(report: VacuumReport) -> set[VacuumAction]:
    return {entry.action for entry in report.entries}


def test_vacuum_removes_what_only_old_versions_name(catalog: Catalog, root: Path) -> None:
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    assert (root / EU / "old.csv").exists()
    assert actions(catalog.vacuum("s.t")) == {VacuumAction.KEPT}, "it is younger than a week"
    with pytest.raises(InvalidInputError) as refused:
        catalog.vacuum("s.t", retention=0)
    first, *preview = catalog.vacuum("s.t", retention=0, dry_run=True).entries
    assert (first.action, first.reason) == ("refused", f"the run would be refused: {refused.value.message}")
    assert any(entry.path.endswith("old.csv") for entry in preview)
    allowed = catalog.vacuum("s.t", retention=0, allow_short_retention=True, dry_run=True)
    assert list(allowed.entries) == preview
    assert (root / EU / "old.csv").exists()
    catalog.vacuum("s.t", retention="0s", allow_short_retention=True)
    assert not (root / EU / "old.csv").exists()
    assert len(indexed(catalog)[EU]) == 1
    assert catalog.repair_partitions("s.t", dry_run=True, strict=True).version == 2


def test_versions_expire_without_a_file_deleted(catalog: Catalog, root: Path) -> None:
    catalog.alterations.alter("s.t", set_={"vacuum.retention": "0s"})
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS)
    crash_at("check.after", lambda: insert(catalog, EU))
    catalog.recover("s.t", older_than="0s")
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS)
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS)
    files = walked(root, 2)
    assert catalog.write_maintenance.expire_versions() > 0
    assert [version.version for version in catalog.history("s.t")] == [5, 4, 3], "vacuum needs what 4 has replaced"
    assert State.ABORTED in {t.state for t in catalog.list_transactions("s.t")}, "by its row its files are known"
    assert catalog.write_maintenance.expire_versions() == 0
    assert walked(root, 2) == files
    catalog.vacuum("s.t")
    assert [version.version for version in catalog.history("s.t")] == [5]


def test_vacuum_takes_all_tables(
    catalog: Catalog, tmp_path: Path, run: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "u", f"{EU}/old.csv")
    register(catalog, tmp_path / "u", table="s.u")
    catalog.repair_partitions("s.u")
    for table in ("s.t", "s.u"):
        insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate", table=table)
    preview = catalog.vacuum(retention="0s", dry_run=True)
    assert (preview.table, {e.table for e in preview.entries}) == (None, {"s.t", "s.u"})
    code, text = run("vacuum", "--all", "--retention", "0s", "--force", "--json")
    assert code == 0
    assert {r["table"] for r in json.loads(text)["removals"]} == {"s.t", "s.u"}
    assert catalog.vacuum().entries == ()

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("the bucket is gone")

    monkeypatch.setattr(Vacuum, "run", refuse)
    assert [(e.table, e.reason) for e in catalog.vacuum().failed] == [
        ("s.t", "the bucket is gone"), ("s.u", "the bucket is gone"),
    ]  # fmt: skip


def test_vacuum_guards_what_is_under_way(catalog: Catalog, run: Callable[..., tuple[int, str]]) -> None:
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    for table in ("s.t", None):
        with pytest.raises(InvalidInputError, match=r"retention 0 s would remove .* allow_short_retention => true"):
            catalog.vacuum(table, retention="0s")
    assert run("vacuum", "s.t", "--retention", "59m")[0] == 2
    assert actions(catalog.vacuum("s.t", retention="1h")) == {VacuumAction.KEPT}
    catalog.alter_table_properties("s.t", {"vacuum.retention": "1m"})
    assert actions(catalog.vacuum("s.t", retention="1m")) == {VacuumAction.KEPT}, "the table says so itself"
    assert catalog.vacuum("s.t", retention="0s", allow_short_retention=True).entries


def test_vacuum_leaves_what_another_engine_has_written_again(catalog: Catalog, root: Path) -> None:
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS)
    assert not (root / EU / "old.csv").exists()
    write(root, f"{EU}/old.csv")
    assert [e.path for e in catalog.vacuum("s.t", retention=0, dry_run=True).entries if "old" in e.path] == []
    assert [e.path for e in catalog.repair_partitions("s.t").changed] == [f"{EU}/old.csv"]
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert len(indexed(catalog)[EU]) == 2
    assert (root / EU / "old.csv").exists()


def test_what_an_aborted_write_left_is_reported_and_vacuumed(catalog: Catalog, root: Path) -> None:
    begun = begin(catalog)
    staged = stage(begun, US)
    crash_at("promote.before", lambda: catalog.writes.transactions.commit(begun.transaction_id, [staged]))
    catalog.writes.transactions.undo(begun.transaction_id)
    late = f"{EU}/part-00000-{begun.transaction_id}-a1-c000.csv"
    write(root, late)
    report = catalog.repair_partitions("s.t")
    assert begun.transaction_id in skipped(report)[late]
    assert "aborted" in skipped(report)[late]
    assert len(indexed(catalog)[EU]) == 1
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert not (root / late).exists()


def test_what_a_relocation_left_behind_is_not_registered_again(catalog: Catalog, root: Path) -> None:
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    assert "registered at" in skipped(catalog.repair_partitions("s.t"))[EU]
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, Not(IsNull("region")), truncate=False)
    assert (root / EU / "old.csv").exists()
    for mode in ("add", "sync"):
        report = catalog.repair_partitions("s.t", mode=mode)
        assert "vacuum removes it" in skipped(report)[f"{EU}/old.csv"]
        assert indexed(catalog) == {}
    insert(catalog, EU)
    assert len(indexed(catalog)[EU]) == 1, "nor does an append take it in"
    assert not (root / EU / "old.csv").exists(), "which engines that list directories would read again"
    write(root, f"{EU}/new.csv")
    assert [e.path for e in catalog.repair_partitions("s.t").changed] == [f"{EU}/new.csv"]


def test_a_directory_that_a_write_has_made_is_no_partition_yet(catalog: Catalog, root: Path) -> None:
    crash(catalog, "reserve.after", US)
    write(root, f"{US}/", "ds=2025-01-05/region=xx/")
    assert [e.partition for e in catalog.repair_partitions("s.t").added] == ["ds=2025-01-05/region=xx"]
    assert US not in indexed(catalog)


def test_files_of_an_uncommitted_replacement_are_not_the_old_tables(catalog: Catalog, tmp_path: Path) -> None:
    definition = catalog.load_table("s.t").definition
    made = replace(definition, identifier=TableIdentifier("s", "made"), table_type=TableType.MANAGED)
    catalog.create_table(made)
    insert(catalog, EU, table="s.made")

    def replace_table() -> None:
        begun, _ = catalog.writes.begin_creation(WriteKind.REPLACE, made, None, Batch("RTAS", "test@host:1"))
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, EU), stage(begun, US)])

    crash_at("promote.after", replace_table)
    before = indexed(catalog, "s.made")
    assert not [e for e in catalog.repair_partitions("s.made") if e.action != "skip"]
    assert indexed(catalog, "s.made") == before
    catalog.recover(older_than=0)
    assert set(indexed(catalog, "s.made")) == {EU, US}


def test_a_repair_recovers_expired_writes_first(catalog: Catalog) -> None:
    crash(catalog, "promote.after", US)
    (dead,) = catalog.list_transactions("s.t")
    assert list(catalog.repair_partitions("s.t").added) == []
    assert set(indexed(catalog)) == {EU}
    assert catalog.index.transactions.extend_lease(dead.transaction_id, 1)
    catalog.repair_partitions("s.t", dry_run=True)
    assert set(indexed(catalog)) == {EU}, "a preview changes nothing"
    catalog.repair_partitions("s.t")
    assert set(indexed(catalog)) == {EU, US}


def test_the_commands(catalog: Catalog, run: Callable[..., tuple[int, str]]) -> None:
    assert run("status") == (0, "Nothing is under way.\n")
    crash(catalog, "reserve.after", US)
    assert json.loads(run("status", "s.t", "--json")[1])["entries"][0]["state"] == "reserved (live)"
    code, text = run("recover", "s.t", "--older-than", "0s", "--dry-run")
    assert code == 0
    assert "Nothing was changed. Run it without --dry-run to apply this." in text
    code, text = run("recover", "--older-than", "0s", "--json")
    answer = json.loads(text)
    assert (code, answer["dry_run"], len(answer["transactions"])) == (0, False, 1)
    assert run("recover") == (0, "0 transactions\n")
    code, text = run("history", "s.t")
    assert code == 0
    assert "INSERT" in text
    assert "partitions +1, files +1, 1 row, 2 B" in text
    assert [v["version"] for v in json.loads(run("history", "s.t", "--json")[1])["versions"]][:2] == [2, 1]
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    code, text = run("vacuum", "s.t", "--retention", "0s", "--dry-run")
    assert code == 0
    assert "old.csv" in text
    assert text.endswith(", 1 refused\nNothing was changed. Without --dry-run the command is refused.\n")
    assert "refused" not in run("vacuum", "s.t", "--retention", "0s", "--force", "--dry-run")[1]
    removed = json.loads(run("vacuum", "s.t", "--retention", "0s", "--force", "--json")[1])["removals"]
    assert [r["path"] for r in removed if r["path"].endswith("old.csv")]
    assert run("vacuum")[0] == 2
    assert run("recover", "s.t", "--older-than", "soon")[0] == 2
    assert run("history", "s.none")[0] == 1


def test_the_procedures(catalog: Catalog) -> None:
    crash(catalog, "reserve.after", US)
    (row,) = call(catalog, "status", table="s.t")
    assert (row["kind"], row["table"], row["since"].tzname()) == ("transaction", "s.t", "UTC")
    (done,) = call(catalog, "recover", older_than="0s")
    assert (done["transaction"], done["operation"], done["error"]) == (row["id"], "INSERT", None)
    assert call(catalog, "status") == []
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    assert any(
        r["path"].endswith("old.csv")
        for r in call(catalog, "vacuum", table="s.t", retention="0s", allow_short_retention=True)
    )
    with pytest.raises(InvalidInputError, match="retention"):
        call(catalog, "vacuum", table="s.t", retention="soon")


def test_a_table_that_is_dropped_leaves_nothing_of_its_writes(catalog: Catalog, root: Path) -> None:
    begun = begin(catalog)
    file = stage(begun, US)
    catalog.drop_table("s.t")
    with pytest.raises(TableNotFoundError):
        catalog.writes.transactions.commit(begun.transaction_id, [file])
    assert not (root / "_catalog_ext_staging").exists()
    assert not (root / US).exists()
    assert catalog.status() == []


def test_truncate_is_for_tables_that_own_their_files(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    is_eu = Comparison(Operator.EQ, "region", "eu")
    before = indexed(catalog)
    for predicate in (None, is_eu):
        with pytest.raises(OperationNotSupportedError, match=r"not for external tables(.*)DELETE FROM"):
            catalog.writes.delete(table.table_id, table.version, predicate, truncate=True)
    with pytest.raises(OperationNotSupportedError, match=r"DELETE FROM without a condition is not for external tables"):
        catalog.writes.delete(table.table_id, table.version, None, truncate=False)
    assert indexed(catalog) == before
    purged = catalog.alterations.alter("s.t", set_={"external.table.purge": "true"})
    assert catalog.writes.delete(purged.table_id, purged.version, is_eu, truncate=True).files_removed == 1
    assert indexed(catalog) == {EU: {}}


def test_properties_are_found_without_regard_to_case(catalog: Catalog) -> None:
    catalog.alterations.alter("s.t", set_={"Staging-Dir": "_Mine", "Transaction.Lease": "5 minutes"})
    begun = begin(catalog)
    assert (begun.plan.staging, begun.lease_ms) == ("_Mine", 300_000)
    with pytest.raises(InvalidConfigurationError, match=r"write\.max-file-size"):
        catalog.alterations.alter("s.t", set_={"Write.Max-File-Size": "1 x"})


@pytest.fixture
def located(catalog: Catalog, tmp_path: Path) -> Path:
    """300 partitions of one day, each at a location of its own."""
    added = [AddPartition(f"ds=2025-03-01/region=r{n}", (), f"file://{tmp_path}/own/{n}") for n in range(300)]
    catalog._context.index.commits.apply_changes(
        catalog.load_table("s.t").table_id, added, operation="repair", deliver=False
    )
    return tmp_path / "own"


def clauses(*comparisons: tuple[str, str, str]) -> PartitionClauses:
    return PartitionClauses((tuple(KeyComparison(key, word, (value,)) for key, word, value in comparisons),))


def test_plan_of_a_write_has_the_locations_of_its_possible_partitions(catalog: Catalog, located: Path) -> None:
    table, batch = catalog.load_table("s.t"), Batch("INSERT", "test")

    def places(kind: WriteKind, **more: Any) -> int:
        begun, _ = catalog.writes.begin(kind, table.table_id, table.version, batch, **more)
        catalog.writes.transactions.abort(begun.transaction_id, "counted")
        assert begun.partition_locations == begun.plan.locations
        return len(begun.plan.locations)

    one = clauses(("ds", "=", "2025-03-01"), ("region", "=", "r7"))
    assert places(WriteKind.APPEND, clauses=one) == 1
    assert places(WriteKind.OVERWRITE_PARTITIONS, clauses=one) == 1
    assert places(WriteKind.APPEND, clauses=clauses(("ds", "=", "2025-01-01"))) == 0
    condition = Comparison(Operator.EQ, "region", "r7")
    assert places(WriteKind.OVERWRITE, predicate=condition) == 1
    adding = replace(batch, options={"replace-where-mismatch": "add"})
    begun, _ = catalog.writes.begin(WriteKind.OVERWRITE, table.table_id, table.version, adding, predicate=condition)
    assert len(begun.plan.locations) == 300
    assert places(WriteKind.APPEND) == 300


def test_a_write_of_one_partition_goes_to_its_own_place(catalog: Catalog, located: Path) -> None:
    table, name = catalog.load_table("s.t"), "ds=2025-03-01/region=r7"
    (located / "7").mkdir(parents=True)
    one = clauses(("ds", "=", "2025-03-01"), ("region", "=", "r7"))
    begun, _ = catalog.writes.begin(
        WriteKind.OVERWRITE_PARTITIONS, table.table_id, table.version, Batch("INSERT", "test"), clauses=one
    )
    file = stage(begun, name)
    catalog.writes.transactions.commit(begun.transaction_id, [file])
    assert (located / "7" / file.name).exists()
    assert indexed(catalog)[name] == {file.name: 2}


@pytest.mark.parametrize("when", ["as old as the one before", "older than the overwrite"])
@pytest.mark.parametrize("by", ["repair", "INSERT"])
def test_another_file_under_a_name_that_a_relocation_left_is_as_new_as_any(
    catalog: Catalog, root: Path, when: str, by: str
) -> None:
    """By a store whose clock is behind the database's, or brought there with its time."""
    old = root / EU / "old.csv"
    at = old.stat().st_mtime
    insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, Not(IsNull("region")), truncate=False)
    old.unlink()
    write(root, f"{EU}/old.csv", content=b"longer than it was\n")
    then = at if when.startswith("as") else at - 120
    os.utime(old, (then, then))
    if by == "INSERT":
        insert(catalog, EU)
    catalog.repair_partitions("s.t")
    assert "old.csv" in indexed(catalog)[EU]
