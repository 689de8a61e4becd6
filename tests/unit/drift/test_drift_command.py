"""``catalog-ext drift`` and its procedures: rows, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main
from catalog_ext.drift.from_metastore import WHY_DROPPED
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.procedures.registry import find_procedure
from tests.kit.index_cases import empty_index
from tests.kit.repair_cases import indexed, write

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return main(["--index", "index.db", "--metastore", "thrift://fake:9083", "drift", *arguments])


def test_rows_json_and_exit_codes(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--check") == 0
    assert "All sides agree." in capsys.readouterr().out
    metastore.drop_partitions("s", "t", ["ds=1"])
    write(tmp_path / "t", "ds=3/a.csv")
    assert run() == 0
    reported = capsys.readouterr().out
    assert "ds=1" in reported
    assert "2 differences." in reported
    assert run("s.t", "--check", "--json") == 3
    rows = json.loads(capsys.readouterr().out)["differences"]
    assert [(r["kind"], r["subject"], r["metastore"]) for r in rows] == [
        ("partition", "ds=1", "missing"), ("partition", "ds=3", "missing"),
    ]  # fmt: skip
    metastore.down = True
    assert run("s.t", "--check") == 3, "ds=3 is on the store alone, whatever the metastore says"
    assert "1 not compared" in capsys.readouterr().out


def test_an_index_without_tables_is_said_to_have_nothing_to_compare(
    metastore: FakeMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.db").write_bytes(empty_index())
    assert main(["--index", "empty.db", "--metastore", "thrift://fake:9083", "drift", "--check"]) == 0
    assert "Nothing was compared: the index has no such table or view." in capsys.readouterr().out


def test_tables_that_are_all_left_out_are_not_said_to_agree(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--check", "--exclude", "s") == run("s.*", "--exclude", "s.t") == 0
    assert capsys.readouterr().out.count("Nothing was compared") == 2


def test_an_outage_is_no_drift_and_a_failed_delivery_is_no_patience(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore.down = True
    assert run("--check") == run("s.t", "--check") == 4
    assert run("s.t") == 0
    assert run("s.t", "--mend", "--from", "metastore") == 4
    capsys.readouterr()
    write(tmp_path / "t", "ds=3/a.csv")
    catalog.repair_partitions("s.t")
    metastore.down = False
    assert run("--check") == 3
    reported = capsys.readouterr().out
    assert "failed: the outbox has it to deliver, and failed: " in reported
    assert "0 differences, 1 pending (1 failed)." in reported


def test_patterns_and_a_limit(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "80")
    metastore.drop_partitions("s", "t", ["ds=1", "ds=2"])
    write(tmp_path / "t", f"ds={'x' * 90}/a.csv")
    assert run("s.t*", "--limit", "1") == 0
    reported = capsys.readouterr().out
    assert reported.splitlines()[:3] == [
        "s.t", "  partition ds=1", "    store: 1 file, 1 byte | index: 1 file, 1 byte | metastore: missing"
    ]  # fmt: skip
    assert reported.splitlines()[-1] == "3 differences. 1 shown, --limit 0 shows all."
    assert run() == 0
    assert f"ds={'x' * 90}\n" in capsys.readouterr().out, "names are never cut"
    assert run("s", "--check", "--exclude", "s.t") == 0
    assert run("s.x*") == 1
    assert "no table that matches 's.x*'" in capsys.readouterr().err
    assert run("s.*", "--limit", "1", "--json", "--check") == 3
    assert len(json.loads(capsys.readouterr().out)["differences"]) == 1


def test_a_preview_has_done_nothing(
    catalog: Catalog, metastore: FakeMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    assert run("s.t", "--mend", "--from", "index", "--dry-run", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["mended"]
    assert (row["done"], row["would_be_done"]) == (False, True)


def test_mending(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    assert run("s.t", "--mend", "--from", "metastore") == 1
    assert "left alone" in capsys.readouterr().out
    assert run("s.t", "--mend", "--from", "metastore", "--drop", "--dry-run") == 0
    assert "Nothing was changed." in capsys.readouterr().out
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    assert run("s.t", "--mend", "--from", "index", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["mended"]
    assert (row["action"], row["done"]) == ("publish", True)
    assert run("--check") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("s.t", "--mend"), ("s.t", "--from", "index"), ("s.t", "--dry-run"), ("s.t", "--drop"),
        ("--mend", "--from", "store"), ("s.t", "--mend", "--from", "store", "--check"),
        ("s.t", "--mend", "--from", "index", "--drop"), ("s.*", "--mend", "--from", "index"),
        ("s.t", "--mend", "--from", "index", "--exclude", "s.u"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(catalog: Catalog, arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == 2


def test_procedures(catalog: Catalog, metastore: FakeMetastore) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    arguments = {"table": "s.t", "source": "metastore", "drop": True}

    def rows(name: str, given: dict[str, object]) -> list[dict[str, object]]:
        result = find_procedure(name).call(catalog, given)
        return [row for batch in result.batches for row in batch.cast(result.schema).to_pylist()]

    (difference,) = rows("drift", {})
    assert (difference["table"], difference["subject"], difference["pending"]) == ("s.t", "ds=1", False)
    assert rows("mend_drift", {**arguments, "dry_run": True})[0]["action"] == "drop"
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    assert rows("mend_drift", arguments) == [
        {"table": "s.t", "action": "drop", "subject": "ds=1", "done": True, "why": WHY_DROPPED}
    ]
    assert rows("drift", {"table": "s.t"})[0]["subject"] == "ds=1", "it is on the store"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_publication_names_what_goes_from_the_metastore(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    metastore.add_partitions("s", "t", [HivePartition((str(n),), f"file://{tmp_path}/{n}") for n in range(10, 25)])
    arguments = ["--index", "index.db", "--metastore", "thrift://fake:9083", "publish", "s.t"]
    assert main([*arguments, "--dry-run", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tables"]
    assert row["drops"] == [f"ds={n}" for n in range(10, 25)]
    assert main([*arguments, *["--dry-run"] * dry_run]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    words = "would be dropped there" if dry_run else "dropped there"
    assert f"s.t: {words}: ds=10, ds=11" in reported
    assert "ds=19 and 5 more" in reported
    assert ("Nothing was changed" in reported) is dry_run
    assert len(list(metastore.partition_names("s", "t"))) == (17 if dry_run else 2)


def test_drop_warns_that_a_repair_adds_the_partition_again(
    catalog: Catalog, metastore: FakeMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    for preview in (["--dry-run"], []):
        assert run("s.t", "--mend", "--from", "metastore", "--drop", *preview) == 0
        reported = " ".join(capsys.readouterr().out.split())
        assert "s.t drop ds=1: the metastore does not have it; its files stay, and a repair adds it again" in reported
    catalog.repair_partitions("s.t", mode="drop")
    assert set(indexed(catalog)) == {"ds=2"}
    catalog.repair_partitions("s.t")
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
