"""The parts of the demo that run in a process of their own; ``make demo`` is all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples.demo import sessions, spark_on_hive

if TYPE_CHECKING:
    from pathlib import Path


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
