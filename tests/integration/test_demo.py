"""The demo: what ``make demo`` runs, and a part of it that runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import sessions, spark_on_hive

PROJECT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.server
def test_the_whole_demo_ends_well() -> None:
    """It compares what its queries, plain Spark and Hive answer, and looks for servers that are left.

    With a third of the days: every step is taken, and plain Spark lists fewer directories for each of its queries.
    """
    command = [sys.executable, "-m", "examples.demo", "--few-days", "--traceback"]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=570
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    said = " ".join(done.stdout.split())  # the width of the terminal, which breaks the lines, is not the test's
    assert "it leaves nothing running" in said


@pytest.mark.spark
def test_sparks_own_hive_catalog_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As for who runs `make demo`: nothing but what is installed is on the path.
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = tmp_path / "spark-on-hive"
    settings = sessions.local_settings(folder)
    assert spark_on_hive.ask(folder, settings, ["SELECT 1 AS one, 'a'", "SHOW DATABASES"]) == [
        [[1, "a"]],
        [["default"]],
    ]
