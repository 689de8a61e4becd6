"""The limits of ``make lint`` on the size of functions and modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks.size_check import FUNCTION_LINES, MODULE_LINES, size_problems

if TYPE_CHECKING:
    from pathlib import Path


def function(name: str, lines: int) -> str:
    return f"def {name}():\n" + "    pass\n" * (lines - 1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("catalog_ext", "metastore"):
        (tmp_path / folder).mkdir()
    (tmp_path / "catalog_ext" / "metastore").symlink_to(tmp_path / "metastore")
    (tmp_path / "metastore" / "good.py").write_text(
        "@decorated\n" + function("f", FUNCTION_LINES) + "\n" * (MODULE_LINES - FUNCTION_LINES - 1), encoding="utf-8"
    )
    return tmp_path


def test_function_above_the_limit_is_named_once(project: Path) -> None:
    (project / "metastore" / "long.py").write_text(function("g", FUNCTION_LINES + 1), encoding="utf-8")
    (problem,) = size_problems(project, ())
    assert problem.startswith(f"metastore/long.py::g: {FUNCTION_LINES + 1} lines")
    assert not list(size_problems(project, ("metastore/long.py::g",)))


def test_module_above_the_limit_is_named_once(project: Path) -> None:
    (project / "catalog_ext" / "long.py").write_text("x = 1\n" * (MODULE_LINES + 1), encoding="utf-8")
    (problem,) = size_problems(project, ())
    assert problem.startswith(f"catalog_ext/long.py: {MODULE_LINES + 1} lines")


def test_entry_of_the_list_must_be_needed(project: Path) -> None:
    (problem,) = size_problems(project, ("metastore/good.py::f",))
    assert problem == "metastore/good.py::f: within the limits, remove it from OVERSIZED"
