from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that one works in, with nothing set in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("INDEX", "WAREHOUSE", "STORAGE", "METASTORE"):
        monkeypatch.delenv(f"CATALOG_EXT_{name}", raising=False)
    return tmp_path


@pytest.fixture
def without_metastore(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, where commands have no metastore."""
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "none")
    return working_folder


@pytest.fixture
def run(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in the working folder: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
