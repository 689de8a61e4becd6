"""What ``make neighbours`` found, kept in ``results.json``, and the part of docs/neighbours.md that is made of it.

``python -m tests.neighbours.page`` writes that part; with ``--check`` it exits with 1 if it is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from release.project import PROJECT
from tests.kit.generated_part import GeneratedPart, check_or_write

if TYPE_CHECKING:
    from collections.abc import Iterator


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield "| tests | with | date | passed | failed |"
    yield "|---|---|---|--:|--:|"
    for module, run in sorted(found.items()):
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        yield f"| `{module}` | {versions} | {run['date']} | {run['passed']} | {len(run['failed'])} |"
    failed = [f"- `{name}`" for run in found.values() for name in run["failed"]]
    if failed:
        yield from ("", "Failed:", "", *failed)


PART = GeneratedPart(
    PROJECT / "docs" / "neighbours.md", Path(__file__).with_name("results.json"), "make neighbours",
    "tests.neighbours.page", {}, _lines,
)  # fmt: skip
"""By module of tests: its date, its versions and its counts."""


if __name__ == "__main__":
    sys.exit(check_or_write(PART, sys.argv[1:]))
