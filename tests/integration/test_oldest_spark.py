"""The oldest Spark that is supported; ``make matrix`` runs more there, and on those between."""

from __future__ import annotations

import os
import subprocess

import pytest

from release.project import PROJECT
from tests.matrix.environments import OLDEST, environment, this_python

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_statement_of_each_kind_has_its_answer() -> None:
    interpreter = environment(OLDEST, this_python())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    answer = subprocess.run(
        [str(interpreter), "-m", "pytest", "--quiet", "tests/integration/test_smoke.py"],
        cwd=PROJECT, env={**environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert " passed" in answer.stdout
