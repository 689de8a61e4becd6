"""What ``make matrix`` found, kept in ``results.json``, and the part of docs/compatibility.md that is made of it.

``python -m tests.matrix.page`` writes that part; with ``--check`` it exits with 1 if it is out of date, or if README
does not say the same Sparks and Pythons.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from release.project import PROJECT
from tests.matrix import differences
from tests.matrix.environments import NEWEST, OLDEST, SPARKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = PROJECT / "docs" / "compatibility.md"
RESULTS = Path(__file__).with_name("results.json")
_BEGIN, _END = "<!-- Made by `make matrix`, from here. -->", "<!-- Made by `make matrix`, up to here. -->"
README_SAYS = f"Spark {OLDEST.minor} to {NEWEST.minor}"
"""What README says of the Sparks, with a link to the page."""


def results() -> dict[str, Any]:
    """Return what is kept: the runs by Spark and Python, and what differs by Spark."""
    if not RESULTS.is_file():
        return {"runs": {}, "statements": {}}
    kept: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return kept


def keep(found: dict[str, Any]) -> None:
    """Keep results, and write the page's part."""
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


def renewed(page: str, found: dict[str, Any]) -> str:
    """Return the page with its part made anew."""
    before, rest = page.split(_BEGIN)
    after = rest.split(_END)[1]
    return "\n".join([before + _BEGIN, "", *_lines(found), "", _END + after])


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield "| Spark | Python | date | tests | passed | failed | left out |"
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
        yield f"- {minor}: {number} of {all_} statements get something else than on {NEWEST.minor}."
    if any(compared["differences"] for compared in found["statements"].values()):
        yield ""
        yield from differences.tables({m: c["differences"] for m, c in found["statements"].items()})


def main(arguments: Sequence[str]) -> int:
    """0 when the page is written or, with ``--check``, up to date; else 1, and how to write it."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = renewed(page, results())
    if "--check" not in arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    wrong = []
    if page != wanted:
        wrong.append("docs/compatibility.md is not what the results say. Run: python -m tests.matrix.page")
    if README_SAYS not in (PROJECT / "README.md").read_text(encoding="utf-8"):
        wrong.append(f"README.md does not say {README_SAYS!r}, as docs/compatibility.md does")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
