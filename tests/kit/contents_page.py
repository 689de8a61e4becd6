"""Writes the table of ``docs/what-can-lie-in-a-partition.md`` from ``partition_contents``.

``python -m tests.kit.contents_page`` writes it; with ``--check`` it exits with 1 if the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from release.project import PROJECT
from tests.kit.partition_contents import KINDS, S3_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = PROJECT / "docs" / "what-can-lie-in-a-partition.md"
_BEGIN, _END = "<!-- Made by `python -m tests.kit.contents_page`, from here. -->", "<!-- up to here. -->"


def lines() -> Iterator[str]:
    """The lines of the two tables."""
    yield "| file or directory | repair | `verify => 'all'` | ANALYZE | query | registration without a schema |"
    yield "|---|---|---|---|---|---|"
    for kind in KINDS:
        yield "| " + " | ".join((kind.name, kind.repair, kind.verify, kind.analyze, kind.query, kind.register)) + " |"
    yield ""
    yield "Only on S3, repair also meets these object keys:"
    yield ""
    yield "| object key | repair |"
    yield "|---|---|"
    for name, (_, repair) in S3_KEYS.items():
        yield f"| {name} | {repair} |"


def renewed(text: str) -> str:
    """The page with its tables written again."""
    before, rest = text.split(_BEGIN)
    return "\n".join([before + _BEGIN, "", *lines(), "", _END + rest.split(_END)[1]])


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` return 1 if it is out of date."""
    text = _PAGE.read_text(encoding="utf-8")
    if "--check" in arguments:
        if text != renewed(text):
            print(f"docs/{_PAGE.name} is not what the tests say. Run: python -m tests.kit.contents_page")  # noqa: T201
            return 1
        return 0
    _PAGE.write_text(renewed(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
