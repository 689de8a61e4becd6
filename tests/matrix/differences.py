"""Compares what statements get on two Sparks, and says why it is not the same: a difference has a reason here.

One without a reason fails ``make matrix``, and so does a reason that fits nothing any more.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Outcomes = dict[tuple[str, str, int], dict[str, Any]]
"""What each statement got, by the test, the text, and its occurrence number in the test."""


@dataclass(frozen=True)
class Reason:
    """Why statements get something else on some Sparks than on the newest.

    Attributes:
        sparks: Their minors.
        statement: An expression that the statements match from their beginning.
        why: As the page says it.
        here: An expression that is found in what they get there.
        but: An expression of all that differs: the rest has to be the same. Anything may where it is empty.
    """

    sparks: tuple[str, ...]
    statement: str
    why: str
    here: str = ""
    but: str = ""

    def explains(self, spark: str, statement: str, here: str, newest: str) -> bool:
        """Whether it is why a statement gets something else on a Spark."""
        if spark not in self.sparks or not re.match(self.statement, statement) or not re.search(self.here, here):
            return False
        return not self.but or re.sub(self.but, "", here) == re.sub(self.but, "", newest)


@dataclass(frozen=True)
class Difference:
    """A statement that gets something else than on the newest Spark.

    Attributes:
        here: What it gets.
        newest: What it gets on the newest.
        why: The reason; None without a known reason.
    """

    statement: str
    here: str
    newest: str
    why: str | None


_OLD = ("4.0", "4.1")
_BEFORE_NEWEST = (*_OLD, "4.2")
_SIZE = r"\d+(\.\d)? (K?i?B|bytes)"
REASONS: Sequence[Reason] = (
    Reason(
        _OLD, "(CREATE|ALTER|DROP|SHOW) VIEW", "Spark has views in catalogs other than its own since 4.2",
        "CATALOG_EXT_NEWER_SPARK_NEEDED|VIEW_NOT_FOUND",
    ),
    Reason(
        _OLD, "SHOW CREATE TABLE", "Spark has views in catalogs other than its own since 4.2",
        "CATALOG_EXT_NEWER_SPARK_NEEDED",
    ),
    Reason(("4.0",), r"SELECT id FROM lake\.w\.clock|CREATE TABLE .*\bTIME\(", "Spark has the type TIME since 4.1"),
    Reason(
        ("4.0",), r"SELECT id FROM lake\.w\.variants", "4.0's Parquet reader does not know the mark of a VARIANT",
        "CATALOG_EXT_NEWER_SPARK_NEEDED",
    ),
    Reason(_BEFORE_NEWEST, "SHOW TABLES", "the error has a name since 4.3", "_LEGACY_ERROR_TEMP_1126"),
    Reason(
        _BEFORE_NEWEST, "SHOW TABLE EXTENDED", "4.3 omits the line of properties if the table has none",
        r"Table Properties: \[\[, \]\]", r"\\nTable Properties: \[\[, \]\]",
    ),
    Reason(
        _OLD, "DESCRIBE EXTENDED", "4.2 and newer show catalog, namespace and table; older Sparks show one name",
        "'Name'",
    ),
    Reason(
        ("4.0",), "EXPLAIN", "plans list VARIANT extractions since 4.1; 4.0 writes Parquet files of another size",
        "Physical Plan", rf"PushedVariantExtractions: \[\], |{_SIZE}",
    ),
    Reason(
        ("4.0",), "(SHOW TABLE|DESCRIBE) EXTENDED .*PARTITION", "4.0's Parquet library writes files of another size",
        "bytes", _SIZE,
    ),
    Reason(
        ("4.0",), r"CALL lake\.system\.\w+_partitions", "4.0's Parquet library writes files of another size",
        r", \d+, ", r", \d{3,}, ",
    ),
)  # fmt: skip


def read(folder: Path) -> Outcomes:
    """Return what a run has noted (``tests/matrix/outcomes.py``)."""
    found: Outcomes = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            found[entry["test"], entry["statement"], entry["time"]] = entry["outcome"]
    return found


def differences(spark: str, here: Outcomes, newest: Outcomes, reasons: Sequence[Reason]) -> list[Difference]:
    """Return what differs, once for each statement, in the order of the tests.

    A statement that only one of them has sent differs by itself only where nothing before it in its test does: what
    follows an error is often left out. Tests that one of them has left out show in the counts of tests.
    """
    found: dict[tuple[str, str, str], Difference] = {}
    strayed = {test for test, _, _ in here} ^ {test for test, _, _ in newest}
    for key in [*here, *(key for key in newest if key not in here)]:
        test, statement, _ = key
        ours, theirs = here.get(key), newest.get(key)
        if ours == theirs or ((ours is None or theirs is None) and test in strayed):
            continue
        if ours is None or theirs is None or ("condition" in ours) != ("condition" in theirs):
            strayed.add(test)
        left, right = shown(ours, theirs)
        why = next((reason.why for reason in reasons if reason.explains(spark, statement, left, right)), None)
        found.setdefault((statement, left, right), Difference(statement, left, right, why))
    return list(found.values())


def without_use(spark: str, found: Sequence[Difference], reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons for a Spark that explain none of its differences."""
    used = {difference.why for difference in found}
    return [reason for reason in reasons if spark in reason.sparks and reason.why not in used]


def shown(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return what is different of two outcomes, for people."""
    if ours is None or theirs is None or "condition" in ours or "condition" in theirs:
        return _kind(ours), _kind(theirs)
    if ours.get("columns") != theirs.get("columns"):
        return f"columns {ours.get('columns')}", f"columns {theirs.get('columns')}"
    mine, other = ours.get("rows", []), theirs.get("rows", [])
    return _rows([row for row in mine if row not in other]), _rows([row for row in other if row not in mine])


def _kind(outcome: Mapping[str, Any] | None) -> str:
    if outcome is None:
        return "not sent"
    return str(outcome.get("condition", "an answer"))


def _rows(rows: Sequence[str]) -> str:
    return "; ".join(rows) or "no such row"


def tables(by_spark: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the lines of the page's table of what differs."""
    yield "| statement | Spark | result there | result on the newest Spark | why |"
    yield "|---|---|---|---|---|"
    rows: dict[tuple[str, ...], list[str]] = {}
    for spark, found in by_spark.items():
        for one in found:
            key = (one["statement"], one["here"], one["newest"], one["why"] or "**not known yet**")
            rows.setdefault(key, []).append(spark)
    for (statement, here, newest, why), sparks in rows.items():
        start = _where_they_part(here, newest)
        cells = (_code(statement), ", ".join(sparks), _code(here, start), _code(newest, start), why)
        yield f"| {' | '.join(cells)} |"


_MOST = 160
_BEFORE = 60
"""How much of a cell stands before the first difference, where not all of it is shown."""


def _where_they_part(here: str, newest: str) -> int:
    """Return from where two outcomes are shown: both cut at the same place, and what differs is in sight."""
    if max(len(here), len(newest)) <= _MOST:
        return 0
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(here, newest, strict=False)))
    return max(alike - _BEFORE, 0)


def _code(text: str, start: int = 0) -> str:
    rest = f"… {text[start:]}" if start else text
    cut = rest if len(rest) <= _MOST else f"{rest[: _MOST - 2]} …"
    return f"`{cut.replace('|', '¦').replace('`', chr(39))}`"
