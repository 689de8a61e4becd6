"""What ``make matrix`` found, kept in ``results.json``, and the part of docs/compatibility.md that is made of it.

``python -m tests.matrix.page`` writes that part; with ``--check`` it exits with 1 if it is out of date, or if README
does not say the same Sparks and Pythons.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from release.project import PROJECT
from tests.kit.generated_part import GeneratedPart, check_or_write
from tests.matrix import differences
from tests.matrix.environments import NEWEST, OLDEST, SPARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

README_SAYS = f"Spark {OLDEST.minor} to {NEWEST.minor}"
"""What README says of the Sparks, with a link to the page."""


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield "| Spark | Python | date | tests | passed | failed | skipped |"
    yield "|---|---|---|---|--:|--:|--:|"
    for spark in SPARKS.values():
        runs = found["runs"].get(spark.minor, {})
        for python in spark.pythons:
            run = runs.get(python)
            if run is None:
                yield f"| {spark.version} | {python} | | not tried | | | |"
                continue
            for part, counts in run["parts"].items():
                numbers = f"{counts['passed']} | {len(counts['failed'])} | {counts['skipped']}"
                yield f"| {spark.version} | {python} | {run['date']} | {part} | {numbers} |"
    failed = [
        f"- {minor}, Python {python}, {part}: `{name}`"
        for minor, runs in found["runs"].items()
        for python, run in runs.items()
        for part, counts in run["parts"].items()
        for name in counts["failed"]
    ]
    if failed:
        yield from ("", "Failed:", "", *failed)
    yield from ("", "## What differs, statement by statement", "")
    for minor, compared in found["statements"].items():
        number, all_ = len(compared["differences"]), compared["compared"]
        yield f"- Spark {minor}: {number} of {all_} statements have another result than on Spark {NEWEST.minor}."
    if any(compared["differences"] for compared in found["statements"].values()):
        yield ""
        yield "`an answer`: a result without an error. `not sent`: the tests do not send the statement to that Spark."
        yield ""
        yield from differences.tables({m: c["differences"] for m, c in found["statements"].items()})


PART = GeneratedPart(
    PROJECT / "docs" / "compatibility.md", Path(__file__).with_name("results.json"), "make matrix", "tests.matrix.page",
    {"runs": {}, "statements": {}}, _lines,
)  # fmt: skip
"""The runs by Spark and Python, and what differs by Spark."""


def _readme() -> list[str]:
    if README_SAYS in (PROJECT / "README.md").read_text(encoding="utf-8"):
        return []
    return [f"README.md does not say {README_SAYS!r}, as docs/compatibility.md does"]


if __name__ == "__main__":
    sys.exit(check_or_write(PART, sys.argv[1:], _readme))
