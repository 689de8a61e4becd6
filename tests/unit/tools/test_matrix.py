"""What ``make matrix`` makes of two Sparks' answers, and of the page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.connector.build import SUPPORTED_SPARK
from tests.matrix import __main__ as matrix
from tests.matrix import differences
from tests.matrix.differences import Reason, tables
from tests.matrix.environments import NEWEST, OLDEST, SPARKS
from tests.matrix.page import PART

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def noted(folder: Path, *entries: tuple[str, dict[str, Any]], test: str = "a") -> differences.Outcomes:
    folder.mkdir()
    lines = [json.dumps({"test": test, "statement": s, "time": 1, "outcome": outcome}) for s, outcome in entries]
    (folder / "1.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return differences.read(folder)


def test_a_difference_is_shown_with_its_reason_or_without_one(tmp_path: Path) -> None:
    newest = noted(
        tmp_path / "newest",
        ("SHOW x", {"columns": "a", "rows": ["(1,)", "(2,)"]}),
        ("CALL y", {"columns": "a", "rows": ["(1,)"]}),
        ("SELECT same", {"columns": "a", "rows": []}),
        ("SELECT c", {"columns": "a"}),
    )
    here = noted(
        tmp_path / "here",
        ("SHOW x", {"columns": "a", "rows": ["(1,)", "(3,)"]}),
        ("CALL y", {"condition": "PARSE_SYNTAX_ERROR"}),
        ("SELECT same", {"columns": "a", "rows": []}),
        ("SELECT c", {"columns": "b"}),
    )
    reasons = [Reason(("4.0",), "CALL", "it came with 4.1", "PARSE"), Reason(("4.0",), "MERGE", "of nothing")]
    found = differences.differences("4.0", here, newest, reasons)
    assert [(d.statement, d.here, d.newest, d.why) for d in found] == [
        ("SHOW x", "(3,)", "(2,)", None),
        ("CALL y", "PARSE_SYNTAX_ERROR", "an answer", "it came with 4.1"),
        ("SELECT c", "columns b", "columns a", None),
    ]
    assert [d.why for d in differences.differences("4.1", here, newest, reasons)] == [None, None, None]
    assert differences.without_use("4.0", found, reasons) == reasons[1:]


def test_a_reason_explains_no_other_difference(tmp_path: Path) -> None:
    """An old Spark's sizes of files are no reason for another filter."""
    newest = noted(
        tmp_path / "newest",
        ("EXPLAIN x", {"columns": "plan", "rows": ["Filter a, 781.0 B"]}),
        ("EXPLAIN y", {"columns": "plan", "rows": ["Filter a, 781.0 B"]}),
    )
    here = noted(
        tmp_path / "here",
        ("EXPLAIN x", {"columns": "plan", "rows": ["Filter a, 2.4 KiB"]}),
        ("EXPLAIN y", {"columns": "plan", "rows": ["Filter b, 2.4 KiB"]}),
    )
    reason = Reason(("4.0",), "EXPLAIN", "other sizes", "Filter", r"\d+\.\d (Ki)?B")
    found = differences.differences("4.0", here, newest, [reason])
    assert [(d.here, d.why) for d in found] == [("Filter a, 2.4 KiB", "other sizes"), ("Filter b, 2.4 KiB", None)]


def test_what_was_not_sent_is_one_difference_of_a_test(tmp_path: Path) -> None:
    newest = noted(tmp_path / "newest", ("SELECT 1", {}), ("SELECT 2", {}), ("SELECT 3", {}))
    here = noted(tmp_path / "here", ("SELECT 1", {}))
    assert [(d.statement, d.here) for d in differences.differences("4.0", here, newest, ())] == [
        ("SELECT 2", "not sent")
    ]


def test_reasons_are_of_sparks_that_are_compared() -> None:
    compared = set(SPARKS) - {NEWEST.minor}
    assert [reason for reason in differences.REASONS if not set(reason.sparks) <= compared] == []


def test_the_sparks_are_those_that_the_connector_is_compiled_for() -> None:
    assert tuple(reversed(SPARKS)) == SUPPORTED_SPARK


def test_each_python_runs_all_tests_on_some_spark() -> None:
    assert OLDEST.minor == "4.0"
    assert all(spark.whole in spark.pythons for spark in SPARKS.values())
    assert len({spark.whole for spark in SPARKS.values()}) == len(SPARKS)


def test_tests_are_counted_by_their_parts(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.conformance.test_doris" name="a"/>'
        '<testcase classname="tests.conformance.test_doris" name="b"><failure/></testcase>'
        '<testcase classname="tests.conformance.test_doris" name="b"><error/></testcase>'
        '<testcase classname="tests.conformance.test_flink" name="c"><skipped/></testcase>'
        '<testcase classname="" name="tests.conformance.test_x"><error/></testcase>'
        '<testcase classname="tests.unit.test_layout" name="d"/>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    failed = ["tests/conformance/test_doris.py::b", "tests/conformance/test_x.py::tests.conformance.test_x"]
    counted = matrix._counts(report, ("tests/conformance",))
    assert counted == {"passed": 1, "failed": failed, "skipped": 1}


def test_unknown_spark_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["3.5"]) == 1
    assert "There is no Spark 3.5 here: give some of 4.3, 4.2, 4.1, 4.0." in capsys.readouterr().err


def test_the_page_says_what_was_found(tmp_path: Path) -> None:
    counts = {"passed": 7, "failed": ["tests/x.py::a"], "skipped": 1}
    difference = {"statement": "SHOW `a|b`", "here": "x", "newest": "y", "why": None}
    kept = {
        "runs": {"4.0": {"3.10": {"date": "2026-11-24", "parts": {"writes": counts}}}},
        "statements": {"4.0": {"compared": 9, "differences": [difference]}},
    }
    part = replace(PART, page=tmp_path / "page.md", results=tmp_path / "results.json")
    begin, end = (f"<!-- Made by `make matrix`, {where} here. -->" for where in ("from", "up to"))
    part.page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    assert part.problems() == ["docs/page.md is not what the results say. Run: python -m tests.matrix.page"]
    part.keep(kept)
    text = part.page.read_text(encoding="utf-8")
    assert part.found() == kept
    assert part.problems() == []
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert f"| {OLDEST.version} | 3.10 | 2026-11-24 | writes | 7 | 1 | 1 |" in text
    assert f"| {OLDEST.version} | 3.13 | | not tried | | | |" in text
    assert "- 4.0, Python 3.10, writes: `tests/x.py::a`" in text
    assert "| `SHOW 'a¦b'` | 4.0 | `x` | `y` | **not known yet** |" in text


def test_long_outcomes_are_cut_so_that_what_differs_is_shown() -> None:
    alike = "the same, " * 40
    one = {"statement": "EXPLAIN", "here": f"{alike}old{alike}", "newest": f"{alike}new{alike}", "why": "so"}
    row = list(tables({"4.0": [one]}))[-1]
    here, newest = row.split(" | ")[2:4]
    assert (here[:3], here[-3:]) == ("`… ", " …`")
    assert ("old" in here, "new" in newest) == (True, True)
    assert len(here) < 170


def test_short_outcomes_are_whole() -> None:
    one = {"statement": "SHOW", "here": "VIEW_NOT_FOUND", "newest": "VIEW_FOUND", "why": "so"}
    assert list(tables({"4.0": [one]}))[-1] == "| `SHOW` | 4.0 | `VIEW_NOT_FOUND` | `VIEW_FOUND` | so |"
