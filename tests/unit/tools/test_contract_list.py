"""The list of the decisions that both languages know, ``tests/contract/README.md``, is complete and up to date."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
CONTRACT = PROJECT / "tests/contract"
CONNECTOR = PROJECT / "catalog_ext/connector/src/main/scala/org/apache/spark/sql/catalogext"
_TERM = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Decision:
    """A row of the table: places as ``(file, symbols)``, the golden file, and the tests."""

    text: str
    python: list[tuple[str, list[str]]]
    scala: list[tuple[str, list[str]]]
    file: str
    tests: list[str]

    def __str__(self) -> str:
        return self.file


def _places(cell: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for term in _TERM.findall(cell):
        if term.endswith((".py", ".scala")):
            found.append((term, []))
        else:
            found[-1][1].append(term)
    return found


def _decisions() -> list[Decision]:
    rows = [line for line in (CONTRACT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]
    return [Decision(c[0], _places(c[1]), _places(c[2]), c[3].strip("`"), _TERM.findall(c[4])) for c in cells]


DECISIONS = _decisions()


@cache
def _constants() -> dict[str, set[str]]:
    """The golden files that each name of ``golden.py`` holds, directly or by another name."""
    found: dict[str, set[str]] = {}
    for node in ast.parse((CONTRACT / "golden.py").read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        inside = list(ast.walk(node))
        files = {n.value for n in inside if isinstance(n, ast.Constant) and str(n.value).endswith(".json")}
        files |= set().union(*(found.get(n.id, set()) for n in inside if isinstance(n, ast.Name)))
        found |= dict.fromkeys(names, files)
    return found


def _files_of(test: str) -> set[str]:
    """The golden files that a test uses: by name, by a constant of ``golden.py``, or by a module of ``tests/kit``."""
    text = (PROJECT / test).read_text(encoding="utf-8")
    found = set(re.findall(r"(\w+\.json)", text))
    for module, names in re.findall(r"^from tests\.(contract\.golden|kit\.\w+) import ([\w, ]+|\([^)]*\))", text, re.M):
        if module == "contract.golden":
            found |= set().union(*(_constants().get(name, set()) for name in re.findall(r"\w+", names)))
        else:
            kit = PROJECT / f"tests/{module.replace('.', '/')}.py"
            found |= set(re.findall(r"(\w+\.json)", kit.read_text(encoding="utf-8")))
    return found


def test_each_golden_file_has_one_row() -> None:
    assert sorted(decision.file for decision in DECISIONS) == sorted(path.name for path in CONTRACT.glob("*.json"))


@pytest.mark.parametrize("decision", DECISIONS, ids=str)
def test_each_place_of_a_row_exists(decision: Decision) -> None:
    assert decision.python, "no place in Python"
    assert decision.scala, "no place in Scala"
    for root, places in ((PROJECT, decision.python), (CONNECTOR, decision.scala)):
        for file, symbols in places:
            text = (root / file).read_text(encoding="utf-8")
            assert symbols, file
            assert [symbol for symbol in symbols if not re.search(rf"\b{re.escape(symbol)}\b", text)] == [], file


@pytest.mark.parametrize("decision", DECISIONS, ids=str)
def test_tests_of_both_languages_use_the_file_of_a_row(decision: Decision) -> None:
    using = [test for test in decision.tests if decision.file in _files_of(test)]
    assert using == decision.tests
    # A test of the Scala side needs a JVM, and so stands in `tests/integration`.
    assert {test.startswith("tests/integration/") for test in using} == {True, False}


def test_a_row_is_one_short_sentence_or_more() -> None:
    assert [decision.text for decision in DECISIONS if not decision.text.endswith(".")] == []
