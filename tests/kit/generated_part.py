"""The part of a documentation page that a command generates, with its data in a JSON file."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class GeneratedPart:
    """A part of a page.

    Attributes:
        page: The page.
        results: The file of what was found.
        command: What finds it, such as ``make matrix``; the marks around the part name it.
        module: What writes the part again, such as ``tests.matrix.page``.
        nothing: What is kept before anything was found.
        lines: Makes the part's lines of what was found.
    """

    page: Path
    results: Path
    command: str
    module: str
    nothing: dict[str, Any]
    lines: Callable[[dict[str, Any]], Iterable[str]]

    def found(self) -> dict[str, Any]:
        """Return what is kept."""
        if not self.results.is_file():
            return dict(self.nothing)
        kept: dict[str, Any] = json.loads(self.results.read_text(encoding="utf-8"))
        return kept

    def keep(self, found: dict[str, Any]) -> None:
        """Keep what was found, and write the part."""
        self.results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self.write()

    def write(self) -> None:
        """Write the part of what is kept."""
        self.page.write_text(self._renewed(), encoding="utf-8")

    def problems(self) -> list[str]:
        """Return what is to be done where the page is out of date."""
        if self.page.read_text(encoding="utf-8") == self._renewed():
            return []
        return [f"docs/{self.page.name} is not what the results say. Run: python -m {self.module}"]

    def _renewed(self) -> str:
        begin, end = (f"<!-- Made by `{self.command}`, {where} here. -->" for where in ("from", "up to"))
        before, rest = self.page.read_text(encoding="utf-8").split(begin)
        return "\n".join([before + begin, "", *self.lines(self.found()), "", end + rest.split(end)[1]])


def check_or_write(part: GeneratedPart, arguments: Iterable[str], more: Callable[[], list[str]] = list) -> int:
    """Write the part, or with ``--check`` say what is wrong; 0 if nothing is.

    Args:
        part: The part.
        arguments: Of the command line.
        more: Says what else is wrong.
    """
    if "--check" not in arguments:
        part.write()
        return 0
    wrong = [*part.problems(), *more()]
    for problem in wrong:
        print(problem, file=sys.stderr)  # noqa: T201
    return int(bool(wrong))
