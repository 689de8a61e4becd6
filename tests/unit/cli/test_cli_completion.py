"""Completion in shells, and what the command line imports for it, for help and for lists."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Complete = Callable[..., list[str]]

_HEAVY = {"alembic", "boto3", "hmsclient", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "sqlalchemy", "sqlglot"}
_HEAVY |= {"starlette", "uvicorn", "thrift", "rich"}
_OF_LISTS = {"numpy", "pyarrow", "sqlalchemy", "rich"}


@pytest.fixture
def folder(tmp_path: Path, without_metastore: Path) -> Path:
    """The working folder, with an index of two tables in it."""
    for day in ("2025-01-01", "2025-01-02"):
        for region in ("eu", "a b", "$(reboot)", "__HIVE_DEFAULT_PARTITION__"):
            (tmp_path / "trips" / f"ds={day}" / f"region={region}").mkdir(parents=True)
            (tmp_path / "trips" / f"ds={day}" / f"region={region}" / "a.parquet").write_bytes(b"x")
    with connect(metastore=None) as catalog:
        for namespace in ("sales", "stock"):
            catalog.create_namespace(namespace)
        keys = {"ds": "DATE", "region": "STRING"}
        catalog.register_table("sales.trips", location=str(tmp_path / "trips"), partition_columns=keys, schema="id INT")
        catalog.repair_partitions("sales.trips")
        (tmp_path / "other").mkdir()
        catalog.register_table("stock.items", location=str(tmp_path / "other"), partition_columns={}, schema="id INT")
    return tmp_path


@pytest.fixture
def complete(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Completes a line as bash does, or as another shell: the values that it is offered."""

    def complete(line: str, shell: str = "bash") -> list[str]:
        words = line.split(" ")
        for name, value in {
            "_CATALOG_EXT_COMPLETE": f"{shell}_complete",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line.encode())),
            "COMP_WORDBREAKS": " \t\n\"'><=;|&(:",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1) if shell == "zsh" else words[-1],
        }.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit, match="0"):
            main([])
        out = capsys.readouterr().out.splitlines()
        return out[1::3] if shell == "zsh" else [each.partition(",")[2] for each in out if each]

    return complete


def test_names_of_tables_and_namespaces(complete: Complete) -> None:
    assert complete("catalog-ext describe ") == ["sales.trips", "stock.items"]
    assert complete("catalog-ext describe STO") == ["stock.items"]
    assert complete("catalog-ext tables s") == ["sales", "stock"]
    assert complete("catalog-ext --index .catalog-ext/index.db vacuum sal") == ["sales.trips"]
    assert complete("catalog-ext --index sqlite:///.catalog-ext/index.db vacuum sal") == ["sales.trips"]


def test_keys_and_values_of_partitions(complete: Complete) -> None:
    line = "catalog-ext files sales.trips -p "
    assert complete(line) == ["ds=", "region="]
    assert complete(f"{line}reg") == ["region="]
    # Bash has broken the word at "=" and replaces what is behind it.
    assert complete(f"{line}ds=2025-") == ["2025-01-01", "2025-01-02"]
    assert complete(f"{line}ds=2025-01-01 -p region=") == ["__HIVE_DEFAULT_PARTITION__", "eu"]
    assert complete(f"{line}nope=") == []
    assert complete("catalog-ext files -p ") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_whole_words(complete: Complete, shell: str) -> None:
    assert complete("catalog-ext files sal", shell) == ["sales.trips"]
    assert complete("catalog-ext files sales.trips -p ds=2025-01-01", shell) == ["ds=2025-01-01"]
    assert complete("catalog-ext files sales.trips -p ", shell)[:2] == ["ds=", "region="]


def test_commands_options_and_columns(complete: Complete) -> None:
    assert complete("catalog-ext rep") == ["repair"]
    assert complete("catalog-ext repair sales.trips --dr") == ["--dry-run"]
    assert complete("catalog-ext tables -o ") == ["table", "json", "csv"]
    assert complete("catalog-ext tables --columns table,f") == ["table,format", "table,files"]


def test_where_there_is_nothing_nothing_is_offered_and_made(complete: Complete, folder: Path) -> None:
    (folder / "foreign.db").write_bytes(b"this is not a database at all, but it has some length " * 30)
    before = sorted(folder.rglob("*"))
    for index in ("nope/index.db", "foreign.db", "oracle://x/y"):
        assert complete(f"catalog-ext --index {index} describe ") == []
    assert complete("catalog-ext --index .catalog-ext/index.db describe sales") == ["sales.trips"]
    assert sorted(folder.rglob("*")) == before


def test_scripts_for_the_shells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_CATALOG_EXT_COMPLETE", f"{shell}_source")
        with pytest.raises(SystemExit, match="0"):
            main([])
        assert f"_CATALOG_EXT_COMPLETE={shell}_complete" in capsys.readouterr().out


_PROGRAM = """
import json, os, sys
from catalog_ext.cli.main import main
for arguments, environment in json.loads(sys.argv.pop()):
    os.environ.update(environment)
    sys.argv[1:] = arguments
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    print(json.dumps([arguments, code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""
"""Runs one command after the other in one process, and says after each what has been imported so far."""


def _imported(folder: Path, *commands: tuple[tuple[str, ...], dict[str, str]]) -> list[tuple[str, set[str]]]:
    command = [sys.executable, "-c", _PROGRAM, json.dumps(commands)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stderr.splitlines()]
    assert [code for _, code, _ in answers] == [0] * len(commands), done.stderr
    return [(" ".join(arguments), set(modules)) for arguments, _, modules in answers]


@pytest.mark.slow
def test_help_and_completion_import_nothing_heavy(folder: Path) -> None:
    line = "catalog-ext files sales.trips -p ds="
    completion = {"_CATALOG_EXT_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    helps = [(name, "--help") for name in ("repair", "serve", "doctor")]
    for command, modules in _imported(folder, *((each, {}) for each in (("--help",), *helps)), ((), completion)):
        assert modules & _HEAVY == set(), command


@pytest.mark.slow
def test_commands_import_what_reads_the_index_alone(folder: Path) -> None:
    commands = (("tables",), ("status",), ("partitions", "sales.trips"), ("repair", "sales.trips"))
    for command, modules in _imported(folder, *((each, {}) for each in commands)):
        assert modules & _HEAVY <= _OF_LISTS, command
