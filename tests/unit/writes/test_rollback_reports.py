"""Rollback and restore_partition of a catalog: reports in Python, CALL and the command line, and the metastore."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.cli.main import main
from catalog_ext.metastore import errors
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.tables import Column, ColumnStatistics, DataFile
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.service.authentication import require_readable
from tests.kit.repair_cases import indexed, local_catalog
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import consistent, external, managed, names, state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

KEYS = {"k": "int", "r": "string"}
ONE, TWO, THREE = "k=1/r=a", "k=2/r=a", "k=3/r=b"


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        yield catalog


def relocate(catalog: Catalog, *partitions: str) -> None:
    insert(catalog, *partitions, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")


def rows(entries: Any) -> list[tuple[str, str, int]]:
    return [(str(entry.action), entry.partition, entry.files) for entry in entries]


def call(catalog: Catalog, procedure: str, **arguments: object) -> list[dict[str, Any]]:
    result = find_procedure(procedure).call(catalog, arguments)
    return [row for batch in result.batches for row in batch.to_pylist()]


def locations(metastore: FakeMetastore) -> dict[str, str]:
    return {"/".join(one.values): str(one.location).rpartition("/t/")[2] for one in metastore.partitions("s", "t")}


def test_report_of_a_whole_table(catalog: Catalog) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE, TWO)
    insert(catalog, ONE)
    location = catalog.load_table("s.t").definition.location
    catalog.partition_commands.relocate("s.t", {"k": "2", "r": "a"}, f"{location}/x")
    insert(catalog, THREE)
    before = state(catalog)
    preview = catalog.rollback("s.t", 1, dry_run=True)
    assert state(catalog) == before
    assert rows(preview) == [
        ("removed", ONE, 1), ("kept", ONE, 1), ("restored", TWO, 1), ("removed", THREE, 1),
    ]  # fmt: skip
    assert {(entry.rows, entry.bytes, entry.version) for entry in preview} == {(1, 2, 1)}
    assert [entry.reason for entry in preview] == [
        "they are deleted, as the directory stays in use", "both versions have them",
        f"the partition moves back to {location}/{TWO}",
        "the partition was added after version 1; its files stay until a vacuum",
    ]  # fmt: skip
    assert catalog.rollback("s.t", 1) == preview
    assert names(catalog) == [ONE, TWO]
    consistent(catalog)
    assert catalog.rollback("s.t", 1) == []
    assert catalog.load_table("s.t").version == before[0] + 1


def test_lost_files_are_rows_of_a_dry_run(catalog: Catalog) -> None:
    root = managed(catalog, keys=KEYS)
    insert(catalog, ONE, TWO, THREE)
    relocate(catalog, ONE, TWO, THREE)
    (gone,) = (root / ONE).glob("*.csv")
    (other,) = (root / TWO).glob("*.csv")
    gone.unlink()
    other.write_text("other\n")
    preview = catalog.rollback("s.t", 1, dry_run=True)
    assert [row for row in rows(preview) if row[0] in ("missing", "changed")] == [
        ("missing", ONE, 1), ("changed", TWO, 1),
    ]  # fmt: skip
    (missing, changed) = (entry.reason for entry in preview if entry.action in ("missing", "changed"))
    assert missing.endswith(f"{gone.name} does not exist any more")
    assert changed.endswith(f"{other.name} was changed since")
    with pytest.raises(errors.FilesLostError, match=r"k=1/r=a.*1 other partition\."):
        catalog.rollback("s.t", 1)
    assert rows(catalog.rollback("s.t", 1, {"k": "3"})) == [("restored", THREE, 1), ("removed", THREE, 1)]


def test_restore_partition_toggles_between_the_last_two_states(catalog: Catalog) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE, TWO)
    old = indexed(catalog)
    relocate(catalog, ONE)
    new = indexed(catalog)
    insert(catalog, TWO)
    both = indexed(catalog)
    assert rows(catalog.restore_partition("s.t", ONE, dry_run=True)) == [("restored", ONE, 1), ("removed", ONE, 1)]
    for expected in (old, new, old):
        catalog.restore_partition("s.t", ONE)
        assert indexed(catalog) == {ONE: expected[ONE], TWO: both[TWO]}
    assert catalog.history("s.t")[0].operation == "RESTORE PARTITION"
    assert rows(catalog.restore_partition("s.t", ONE, 2)) == [("restored", ONE, 1), ("removed", ONE, 1)]
    assert indexed(catalog)[ONE] == new[ONE]


def test_restore_partition_brings_back_a_dropped_one(catalog: Catalog, tmp_path: Path) -> None:
    external(catalog, tmp_path, keys=KEYS)
    insert(catalog, ONE, TWO)
    catalog.partition_maintenance.drop("s.t", {"k": "1"})
    insert(catalog, TWO)
    assert rows(catalog.restore_partition("s.t", "K=01/r=a")) == [("restored", ONE, 1)]
    assert names(catalog) == [ONE, TWO]


def test_what_is_refused(catalog: Catalog) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE)
    relocate(catalog, ONE)
    before = state(catalog)
    for version in (3, -1):
        with pytest.raises(errors.VersionNotFoundError):
            catalog.rollback("s.t", version)
    for partition, error in (
        ("k=9/r=a", errors.PartitionNotFoundError), ("k=1", errors.InvalidPartitionSpecError),
        ("k=x/r=a", errors.InvalidValueError), ("k", errors.InvalidPartitionNameError),
    ):  # fmt: skip
        with pytest.raises(error):
            catalog.restore_partition("s.t", partition)
    with pytest.raises(errors.InvalidPredicateError):
        catalog.rollback("s.t", 1, "x = 1")
    with pytest.raises(errors.ReadOnlyTokenError):
        require_readable("procedures/call", {"procedure": "rollback"})
    assert state(catalog) == before
    catalog.partition_maintenance.set_partition_columns("s.t", types={"k": "bigint"})
    with pytest.raises(errors.VersionExpiredError, match="other types of partition columns"):
        catalog.rollback("s.t", 1)


def test_the_metastore_follows(catalog: Catalog, metastore: FakeMetastore) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE, TWO)
    relocate(catalog, ONE)
    catalog.deliver()
    assert locations(metastore)["1/a"].startswith("_catalog_ext_data/")
    insert(catalog, THREE)
    catalog.rollback("s.t", 1)
    assert catalog.deliver().pending == 0
    assert locations(metastore) == {"1/a": ONE, "2/a": TWO}
    catalog.rollback("s.t", 3)
    catalog.deliver()
    found = locations(metastore)
    assert found["1/a"].startswith("_catalog_ext_data/")
    assert (found["2/a"], found["3/b"]) == (TWO, THREE)
    assert [entry.action for entry in catalog.publish("s.t")] == ["in sync"]


def test_a_partition_gets_its_descriptor_and_statistics_again(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    hive = {"serde": "s", "input_format": "i", "output_format": "o", "serde_parameters": {}, "columns": []}
    piped = PartitionDescriptor("csv", {"sep": "|"}, (Column("x", "int"),), {**hive, "columns": [["x", "int", None]]})
    (root / "k=1").mkdir(parents=True)
    (root / "k=1" / "a.csv").write_text("1\n")
    at_ms = (root / "k=1" / "a.csv").stat().st_mtime_ns // 1_000_000
    file = DataFile("a.csv", 2, at_ms, 1, {"x": ColumnStatistics("1", "1", 0)})
    number = catalog.load_table("s.t").table_id
    catalog.index.commits.apply_changes(
        number, [AddPartition("k=1", (file,), descriptor=piped)], operation="x", deliver=False
    )

    def planned() -> list[dict[str, Any]]:
        found = catalog.index.files.plan(catalog.load_table("s.t"), None, bounds=["x"]).read_all()
        return found.drop_columns(["partition_id"]).to_pylist()  # type: ignore[no-any-return]

    before = planned()
    relocate(catalog, "k=1")
    assert catalog.index.descriptors.of_table(catalog.load_table("s.t")) == {}
    catalog.rollback("s.t", 1)
    assert list(catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()) == [piped]
    assert planned() == before
    catalog.partition_maintenance.drop("s.t", "k = 1")
    catalog.restore_partition("s.t", "k=1")
    assert list(catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()) == [piped]
    assert planned() == before


def test_procedures_and_commands(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE)
    old = indexed(catalog)
    relocate(catalog, ONE)
    new = indexed(catalog)
    (restored, removed) = call(catalog, "rollback", table="s.t", version=1, where="k = 1")
    assert (restored["action"], restored["partition"], restored["files"], restored["version"]) == (
        "restored",
        ONE,
        1,
        1,
    )
    assert removed["reason"] == "its files stay until a vacuum"
    assert indexed(catalog) == old
    assert len(call(catalog, "restore_partition", table="s.t", partition=ONE)) == 2
    assert indexed(catalog) == new
    for version in ("1", True):
        with pytest.raises(errors.InvalidInputError, match="must be a bigint"):
            call(catalog, "rollback", table="s.t", version=version)
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "thrift://fake:9083")
    monkeypatch.setenv("CATALOG_EXT_INDEX", str(tmp_path / "index.db"))
    monkeypatch.setenv("CATALOG_EXT_WAREHOUSE", str(tmp_path / "warehouse"))
    assert main(("rollback", "s.t", "--version", "1", "--dry-run", "-o", "json")) == 0
    shown = json.loads(capsys.readouterr().out)
    assert indexed(catalog) == new
    assert main(("rollback", "s.t", "--version", "1", "--where", "k = 1", "-o", "json")) == 0
    assert json.loads(capsys.readouterr().out) == {**shown, "dry_run": False}
    assert indexed(catalog) == old
    assert main(("restore-partition", "s.t", ONE)) == 0
    assert "restored" in capsys.readouterr().out
    assert indexed(catalog) == new
    assert main(("restore-partition", "s.t", ONE, "--version", "2")) == 0
    assert "The partitions are as they were in that version." in capsys.readouterr().out


def test_tag_below_the_oldest_version_and_a_time_name_the_version(catalog: Catalog) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE)
    first = catalog.history("s.t")[0]
    catalog.tag("s.t", first.version, "before")
    relocate(catalog, ONE)
    relocate(catalog, ONE)
    catalog.vacuum("s.t", retention="0s", allow_short_retention=True)
    with pytest.raises(errors.VersionExpiredError):
        catalog.rollback("s.t", first.version + 1)
    files = catalog.files("s.t", version="before").column("path").to_pylist()
    found = call(catalog, "rollback", table="s.t", tag="before")
    assert [(row["action"], row["version"]) for row in found][:1] == [("restored", first.version)]
    assert catalog.files("s.t").column("path").to_pylist() == files
    moment = datetime.now(timezone.utc) + timedelta(days=1)
    assert catalog.rollback("s.t", moment, dry_run=True) == []
    assert call(catalog, "restore_partition", table="s.t", partition=ONE, timestamp="2100-01-01") == []


@pytest.mark.parametrize("given", [{}, {"version": 1, "tag": "x"}, {"timestamp": "2100-01-01", "tag": "x"}])
def test_rollback_needs_one_version(catalog: Catalog, given: dict[str, object]) -> None:
    managed(catalog, keys=KEYS)
    with pytest.raises(errors.InvalidInputError, match="by one of the arguments version, timestamp and tag"):
        call(catalog, "rollback", table="s.t", **given)


def test_files_of_a_tagged_version_are_not_deleted(catalog: Catalog) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE)
    first = catalog.load_table("s.t").version
    insert(catalog, ONE)
    catalog.tag("s.t", first + 1, "keep")
    for dry_run in (True, False):
        with pytest.raises(errors.TableLayoutError, match="which the tag 'keep' holds"):
            catalog.rollback("s.t", first, dry_run=dry_run)
    relocate(catalog, ONE)
    with pytest.raises(errors.TableLayoutError, match="which the tag 'keep' holds"):
        catalog.rollback("s.t", first)
    assert catalog.files("s.t", version="keep").num_rows == 2
    catalog.rollback("s.t", "keep")
    assert catalog.files("s.t").num_rows == 2
    catalog.untag("s.t", "keep")
    catalog.rollback("s.t", first)
    assert catalog.files("s.t").num_rows == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_files_that_would_be_read_wrongly_are_not_restored(catalog: Catalog, dry_run: bool) -> None:
    managed(catalog, keys=KEYS)
    insert(catalog, ONE)
    first = catalog.load_table("s.t").version
    relocate(catalog, ONE)
    before = catalog.files("s.t").to_pylist()
    table = catalog.load_table("s.t")
    options = {**table.definition.options, "sep": ";"}
    catalog.index.alterations.alter(table.identifier, lambda now: replace(now, options=options), deliver=False)
    with pytest.raises(errors.OperationNotSupportedError, match="its options changed since"):
        catalog.rollback("s.t", first, dry_run=dry_run)
    assert catalog.files("s.t").to_pylist() == before
