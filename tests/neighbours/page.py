"""What ``make neighbours`` found, kept in ``results.json``, and the part of docs/neighbours.md that is made of it.

``python -m tests.neighbours.page`` writes that part; with ``--check`` it exits with 1 if it is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from release.project import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = PROJECT / "docs" / "neighbours.md"
RESULTS = Path(__file__).with_name("results.json")
_BEGIN, _END = "<!-- Made by `make neighbours`, from here. -->", "<!-- Made by `make neighbours`, up to here. -->"


def results() -> dict[str, Any]:
    """Return what is kept: by module of tests, its date, its versions and its counts."""
    if not RESULTS.is_file():
        return {}
    kept: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return kept


def keep(found: dict[str, Any]) -> None:
    """Keep results, and write the page's part."""
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


def renewed(page: str, found: dict[str, Any]) -> str:
    """Return the page with its part made anew."""
    before, rest = page.split(_BEGIN)
    after = rest.split(_END)[1]
    return "\n".join([before + _BEGIN, "", *_lines(found), "", _END + after])


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield "| tests | with | date | passed | failed |"
    yield "|---|---|---|--:|--:|"
    for module, run in sorted(found.items()):
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        yield f"| `{module}` | {versions} | {run['date']} | {run['passed']} | {len(run['failed'])} |"
    failed = [f"- `{name}`" for run in found.values() for name in run["failed"]]
    if failed:
        yield from ("", "Failed:", "", *failed)


def main(arguments: Sequence[str]) -> int:
    """0 when the page is written or, with ``--check``, up to date; else 1, and how to write it."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = renewed(page, results())
    if "--check" not in arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if page != wanted:
        said = "docs/neighbours.md is not what the results say. Run: python -m tests.neighbours.page"
        print(said, file=sys.stderr)  # noqa: T201
    return int(page != wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
