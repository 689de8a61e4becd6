"""``catalog-ext drift`` and its procedures: rows, JSON, exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main
from catalog_ext.procedures.registry import find_procedure
from tests.repair_cases import indexed, write

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.fakes_metastore import FakeMetastore


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
    told = capsys.readouterr().out
    assert "ds=1" in told
    assert "2 differences." in told
    assert run("s.t", "--check", "--json") == 3
    rows = json.loads(capsys.readouterr().out)["differences"]
    assert [(r["kind"], r["subject"], r["metastore"]) for r in rows] == [
        ("partition", "ds=1", "missing"), ("partition", "ds=3", "missing"),
    ]  # fmt: skip
    metastore.down = True
    assert run("s.t", "--check") == 3
    assert "1 not compared" in capsys.readouterr().out


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
        {"table": "s.t", "action": "drop", "subject": "ds=1", "done": True, "why": "the metastore does not have it"}
    ]
    assert rows("drift", {"table": "s.t"})[0]["subject"] == "ds=1", "it is on the store"
