"""``catalog-ext events``: notifications as lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main
from catalog_ext.events import notifications
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write

if TYPE_CHECKING:
    from pathlib import Path

EU = "ds=2025-01-01/region=eu"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table on a local folder, which stands for the bucket ``local``."""
    monkeypatch.setattr(notifications, "_uri", lambda _, key: f"file://{tmp_path}/{key}")
    write(tmp_path / "t", f"{EU}/1.csv")
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
    return str(tmp_path / "index.db")


def line(path: str, name: str = "ObjectCreated:Put") -> str:
    record = {"eventName": name, "s3": {"bucket": {"name": "local"}, "object": {"key": f"t/{path}", "size": 1}}}
    return json.dumps({"Records": [record]})


def run(index: str, *arguments: str) -> int:
    return main(["--index", index, "--metastore", "none", "events", *arguments])


def test_lines_of_a_file(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "t", f"{EU}/2.csv", "ds=2025-01-02/region=eu/1.csv")
    lines = [line(f"{EU}/2.csv"), "", line("ds=2025-01-02/region=eu/1.csv"), line(f"{EU}/_x")]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    assert run(index, str(tmp_path / "events.jsonl")) == 0
    reported = capsys.readouterr().out
    assert "3 events, 1 of them about no partition or known already" in reported
    assert "s.t: 2 partitions looked at; 1 added, 0 dropped, 1 changed; version 2" in reported
    with local_catalog(tmp_path) as catalog:
        assert indexed(catalog) == walked(tmp_path / "t", 2)


def test_malformed_line_is_reported_and_the_others_are_read(
    index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t", f"{EU}/2.csv")
    (tmp_path / "events.jsonl").write_text(f"hello\n{line(f'{EU}/2.csv')}\n")
    assert run(index, str(tmp_path / "events.jsonl"), "--json") == 2
    read = capsys.readouterr()
    assert "line 1 is left out" in read.err
    assert json.loads(read.out.splitlines()[0])["tables"][0]["changed"] == 1


def test_once_is_of_a_queue(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(index, "--once") == 2
    assert "--once goes with --sqs" in capsys.readouterr().err
