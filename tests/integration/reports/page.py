"""Writes docs/public-reports.md from the markers and docstrings of ``test_public_reports.py``.

``python -m tests.integration.reports.page`` writes the page; with ``--check`` it exits with 1 if the page is out of
date.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "docs" / "public-reports.md"
_TESTS = Path(__file__).parent
_HEAD = """\
# Public bug reports, tried here

Bug reports that users of other engines and libraries filed about Hive-style tables. `tests/integration/reports`
restates each report on tables of this catalog, with real files, a Hive Metastore and Spark, and catalog-ext passes all
of these tests. "Fixed" in the last column means that it failed the test when the test was written.
`python -m tests.integration.reports.page` makes this page from the tests.

| report | what users of the other engine met | test |
|---|---|---|
"""


class ReportError(Exception):
    """A test without a docstring, or a marker that is not of the form ``owner/repository#number``."""


@dataclass(frozen=True)
class Report:
    """A test that restates public reports.

    Attributes:
        names: ``owner/repository#number`` of each report.
        problem: The first sentences of the test's docstring.
        fixed: What the test found here and what was fixed; ``""`` if it passed when it was written.
    """

    test: str
    names: tuple[str, ...]
    problem: str
    fixed: str


def reports() -> Iterator[Report]:
    """Yields the reports in the order of the tests.

    Raises:
        ReportError: A marked test lacks a docstring, or a marker has no report's name.
    """
    for path in sorted(_TESTS.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (marks := [m for m in map(_marked, node.decorator_list) if m]):
                problem = ast.get_docstring(node)
                if problem is None:
                    raise ReportError(f"{path.name}::{node.name} has no docstring.")
                yield Report(
                    f"{path.stem}::{node.name}", tuple(name for name, _ in marks), " ".join(problem.split()),
                    " ".join(fixed for _, fixed in marks if fixed),
                )  # fmt: skip


def _marked(decorator: ast.expr) -> tuple[str, str] | None:
    """The name and the outcome of ``@pytest.mark.report("owner/repository#1", fixed="…")``; None for another
    decorator.
    """
    if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.report"):
        return None
    name = ast.literal_eval(decorator.args[0])
    repository, _, number = name.partition("#")
    if repository.count("/") != 1 or not number.isdigit():
        raise ReportError(f"{name!r} is not of the form owner/repository#number.")
    return name, next((ast.literal_eval(k.value) for k in decorator.keywords if k.arg == "fixed"), "")


def page() -> str:
    """Return the page's text."""
    return _HEAD + "".join(
        f"| {', '.join(_link(name) for name in r.names)} | {_cell(r.problem)} | "
        f"`{r.test.partition('::')[2]}`{'. Fixed: ' + _cell(r.fixed) if r.fixed else ''} |\n"
        for r in reports()
    )


def _link(name: str) -> str:
    repository, _, number = name.partition("#")
    return f"[{name}](https://github.com/{repository}/issues/{number})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` say whether it is out of date."""
    if "--check" in arguments:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        sys.stdout.write("docs/public-reports.md is out of date. Run: python -m tests.integration.reports.page\n")
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
