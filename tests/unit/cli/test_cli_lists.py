"""Lists on screens of several widths, as CSV and as JSON: one way for every command that has rows."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from catalog_ext.catalog import connect
from catalog_ext.cli.main import COMMANDS, cli, main, wants_json
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.tables import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Result]

_LONG = "a-namespace-with-a-long-name.a-table-with-a-name-that-is-as-long-as-people-make-them"
_FILE = "part-00000-3f2b8c9e-1234-4d5e-8f90-abcdef012345.c000.snappy.parquet"
_NO_LISTS = {"backup", "register", "unregister", "describe", "init", "migrate", "serve", "events", "follow"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A folder with two tables, and their index as it was made."""
    folder = tmp_path_factory.mktemp("lists")
    for name, partition in (("sales.trips", "ds=2025-01-01/region=日本"), (_LONG, "k=a%09b c")):
        place = folder / name / partition
        place.mkdir(parents=True)
        (place / _FILE).write_bytes(b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with connect(metastore=None) as catalog:
            for name, keys in (("sales.trips", {"ds": "DATE", "region": "STRING"}), (_LONG, {"k": "STRING"})):
                catalog.create_namespace(name.partition(".")[0])
                catalog.register_table(name, location=str(folder / name), partition_columns=keys, schema="id INT")
                catalog.repair_partitions(name)
    return folder, (folder / ".catalog-ext" / "index.db").read_bytes()


@pytest.fixture
def folder(made: tuple[Path, bytes], without_metastore: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that one works in, with its two tables."""
    folder, index = made
    for left in (folder / ".catalog-ext").glob("index.db*"):
        left.unlink()
    (folder / ".catalog-ext" / "index.db").write_bytes(index)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(folder: Path) -> Run:
    """Runs the command line in the folder."""

    def run(*arguments: str, width: int | None = None) -> Result:
        return CliRunner(env={"COLUMNS": None if width is None else str(width)}).invoke(cli, arguments)

    return run


@pytest.mark.parametrize("command", ["partitions", "files"])
def test_earlier_versions_are_listed_by_number_and_time(run: Run, command: str) -> None:
    def listed(*options: str) -> list[str]:
        result = run(command, "sales.trips", "--json", *options)
        assert result.exit_code == 0, result.output
        return [row["partition"] for row in json.loads(result.stdout)[command]]

    newest, *_ = json.loads(run("history", "sales.trips", "--json").stdout)["versions"]
    assert listed("--version", "0") == []
    assert listed("--version", str(newest["version"])) == listed("--timestamp", "2100-01-01") == listed()
    assert listed("--timestamp", "2100-01-01T00:00:00Z") == listed("--timestamp", "2100-01-01T00:00+09:00") == listed()
    for options, message in (
        (("--version", "77"), "has no version 77"),
        (("--version", "never"), "never"),
        (("--timestamp", "2001-01-01"), "it was created at"),
        (("--timestamp", "yesterday"), "'yesterday' is not a time"),
        (("--version", "0", "--timestamp", "2100-01-01"), "exclude each other"),
    ):
        failed = run(command, "sales.trips", *options)
        assert failed.exit_code != 0
        assert message in " ".join((failed.output + str(failed.exception)).split())


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("command", [("tables",), ("partitions",), ("files",), ("history",), ("repair",), ("doctor",)])
def test_no_name_and_no_path_is_broken(run: Run, folder: Path, command: tuple[str, ...], width: int) -> None:
    arguments = {"repair": ("sales.trips",), "doctor": ("--quick",), "tables": ()}.get(command[0], ("sales.trips",))
    result = run(*command, *arguments, width=width)
    assert result.exit_code == 0, result.output
    whole = {
        "tables": [_LONG, "sales.trips"],
        "partitions": ["ds=2025-01-01/region=日本"],
        "files": [_FILE, "ds=2025-01-01/region=日本"],
        "history": ["committed", "repair", "+1,"],
        "repair": ["sales.trips,"],
        "doctor": [(folder / "spark-warehouse").as_uri(), f"sqlite+pysqlite:///{folder}/.catalog-ext/index.db"],
    }
    words = result.output.split()
    assert [name for name in whole[command[0]] if name not in words] == []
    longest = max(map(len, words))
    assert max(map(len, result.output.splitlines())) <= max(width, longest + 2)


def test_columns_without_room_are_named_and_wide_shows_them(run: Run, folder: Path) -> None:
    narrow = run("tables", "sales", width=60).output
    assert "Left out for want of room: location. --wide shows all." in narrow.replace("\n", " ")
    assert str(folder) not in narrow
    wide = run("tables", "sales", "--wide", width=60).output
    assert (folder / "sales.trips").as_uri() in wide.split()
    assert "Left out" not in wide
    assert "external" in wide, "what is usually hidden, too"
    assert run("tables", "sales").output.count("\n") == 4, "without a terminal a row is a line"


def test_columns_are_chosen_by_name_or_heading(run: Run) -> None:
    lines = run("tables", "sales", "--columns", "Size, table", width=20).output.splitlines()
    assert lines[0].split() == ["size", "table"], "what is asked for is not left out"
    rows = json.loads(run("tables", "-o", "json", "--columns", "table,bytes").output)["tables"]
    assert rows[1] == {"table": "sales.trips", "bytes": 1}
    assert run("files", "sales.trips", "-o", "csv", "--columns", "path,size").output == f"path,size\n{_FILE},1\n"


@pytest.mark.parametrize("names", ["tabel", "", ",", "table,x"])
def test_a_column_that_there_is_not_is_refused_before_anything_is_done(run: Run, names: str) -> None:
    result = run("vacuum", "--all", "--columns", names)
    assert result.exit_code == 2
    if names == "tabel":
        assert "Did you mean table?" in result.output


def test_csv_is_read_back(run: Run) -> None:
    (row,) = csv.DictReader(io.StringIO(run("partitions", _LONG, "-o", "csv").output))
    assert (row["partition"], row["files"], row["bytes"], row["rows"]) == ("k=a%09b c", "1", "1", "")
    (newest, _) = csv.DictReader(io.StringIO(run("history", _LONG, "--output", "csv").output))
    assert json.loads(newest["summary"])["partitions_added"] == 1
    assert int(newest["committed_at_ms"]) > 1e12


def test_names_that_would_steer_a_terminal_or_end_a_line(run: Run, folder: Path) -> None:
    hostile = "a\tb\x1b[31m\n\u202e\"'"
    with Index.open(str(folder / ".catalog-ext" / "index.db")) as index:
        index.namespaces.create(Namespace(hostile), deliver=True)
    text = run("outbox").output
    assert "a\\tb\\x1b[31m\\n\\u202e\"'" in text
    assert "\x1b" not in text
    assert json.loads(run("outbox", "-o", "json").output)["changes"][0]["table"] == hostile
    (row,) = csv.DictReader(io.StringIO(run("outbox", "-o", "csv").output, newline=""))
    assert row["table"] == hostile


def test_limits_of_the_three_forms(run: Run) -> None:
    assert "2 tables; 1 shown, --limit 0 shows all" in run("tables", "--limit", "1").output
    assert len(run("tables", "-o", "csv", "--limit", "1").output.splitlines()) == 2
    assert len(json.loads(run("tables", "--json", "--limit", "1").output)["tables"]) == 1


def test_one_way_for_every_list() -> None:
    for name in COMMANDS:
        options = {option for parameter in _command(name).params for option in parameter.opts}
        assert {"-o", "--output", "--json"} <= options, name
        assert ({"--columns", "--wide", "--limit"} <= options) is (name not in _NO_LISTS), name


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def test_forms_that_exclude_each_other(run: Run) -> None:
    assert run("tables", "--json", "-o", "csv").exit_code == 2
    assert run("describe", "sales.trips", "-o", "csv").exit_code == 2
    assert json.loads(run("describe", "sales.trips", "-o", "json").output)["name"] == "trips"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(["x", "--json"], True), (["-o", "json"], True), (["--output=json"], True), (["-ojson"], True), (["-o"], False),
     (["json", "-o", "csv"], False)],
)  # fmt: skip
def test_an_error_is_json_where_the_answer_would_be(given: list[str], wanted: bool) -> None:
    assert wants_json(given) is wanted


@pytest.mark.parametrize("command", [("doctor", "--quick"), ("partitions", "sales.trips")], ids=" ".join)
def test_a_terminal_without_all_characters(run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True) for _ in range(2))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    assert main(command) == 0
    shown = output.buffer.getvalue()  # type: ignore[attr-defined]
    assert shown.isascii()
    assert errors.buffer.getvalue() == b""  # type: ignore[attr-defined]
    assert (b"region=\\u65e5\\u672c" in shown) is (command[0] == "partitions")
