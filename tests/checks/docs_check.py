"""What `make lint` checks in the documentation: links, files, Python, generated pages, settings, the Scala
sources, and the size of functions and modules.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from tests.checks.settings_check import missing_keys, reads  # noqa: E402 -- this file runs as a script, from which the above is found
from tests.checks.size_check import size_problems  # noqa: E402

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#+\s+(?P<title>.+?)\s*#*$", re.MULTILINE)
_ROOM = re.compile(r"^### `(?P<room>[\w.]+)`|^\| `(?P<file>\w+)` \|", re.MULTILINE)
_FILE = re.compile(
    r"`((?:[\w.-]+/)*[\w-]+\.(?:py|scala|java|md|svg)|(?:catalog_ext|metastore|migrations|tests|docs|examples|release)(?:/[\w.-]+)+/?)`"
)
_FOLDERS = ("catalog_ext", "metastore", "migrations", "tests", "docs", "examples", "release")
_CONNECTOR = PROJECT / "catalog_ext" / "connector"
_SCALA = "scala/org/apache/spark/sql/catalogext"
_GENERATED = (
    "docs.tools.reference",
    "docs.tools.error_reference",
    "tests.conformance.report",
    "tests.matrix.page",
    "tests.neighbours.page",
    "tests.integration.reports.page",
    "tests.kit.contents_page",
)


def pages(project: Path) -> list[Path]:
    """The Markdown pages at the top and below docs/."""
    return sorted([*project.glob("*.md"), *project.glob("docs/**/*.md")])


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings have, made the way GitHub makes them."""
    titles = (match["title"] for match in _HEADING.finditer(_FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    """A sentence for each relative link whose file or heading is not there."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    for match in _LINK.finditer(prose):
        target = match["target"]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / unquote(path)).resolve()
        if not file.exists():
            yield f"{page}: the link {target} leads nowhere"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{page}: {target}: the page has no such heading"


def stale_files(project: Path) -> Iterator[str]:
    """A sentence for each file or folder of ours that a page or a source names in backticks, and that is not there.

    A name may leave out the folders in front: `` `commit/rules.py` `` is there if a file's path ends so.
    """
    found = [f for folder in _FOLDERS for f in (project / folder).rglob("*") if "__pycache__" not in f.parts]
    paths = {f"/{f.relative_to(project).as_posix()}" for f in [*found, *project.glob("*")]}
    there = {path[at:] for path in paths for at in range(len(path)) if path[at] == "/"}
    sources = [f for f in found if f.suffix in {".py", ".scala", ".md"} and not f.is_relative_to(project / "tests")]
    for file in [*(page for page in project.glob("*.md") if page.name != "CHANGELOG.md"), *sources]:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for name in _FILE.findall(line):
                if f"/{name.rstrip('/')}" not in there:
                    yield f"{file}:{number}: there is no {name}"


def broken_examples(page: Path) -> Iterator[str]:
    """A sentence for each fenced block of Python that does not parse."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match["language"] not in {"python", "py"}:
            continue
        try:
            ast.parse(textwrap.dedent(match["body"]))
        except SyntaxError as error:
            line = text.count("\n", 0, match.start()) + 1 + (error.lineno or 1)
            yield f"{page}:{line}: the Python example does not parse: {error.msg}"


def stale_pages() -> Iterator[str]:
    """What each generator of a reference page says when the page is not what it would write."""
    for module in _GENERATED:
        if not (PROJECT / module.replace(".", "/")).with_suffix(".py").is_file():
            continue
        answer = subprocess.run(
            [sys.executable, "-m", module, "--check"], capture_output=True, text=True, check=False, cwd=PROJECT
        )
        if answer.returncode != 0:
            yield f"python -m {module} --check: {answer.stdout}{answer.stderr}".strip()


def misplaced_sources(page: Path, sources: Path) -> Iterator[str]:
    """Yields a sentence for each Scala file that the page does not list under its sub-package, or that is not there.

    Args:
        page: It has a heading ``### `room` `` for each sub-package, ``.`` for the package itself, and a table of files.
        sources: The folder with ``main`` and the folders of Spark's minor versions.
    """
    listed, room = set(), ""
    for match in _ROOM.finditer(page.read_text(encoding="utf-8")):
        room = match["room"] or room
        if match["file"]:
            listed.add((Path(room) / match["file"]).as_posix())
    roots = [kind / _SCALA for kind in sources.iterdir()]
    there = {f.relative_to(root).with_suffix("").as_posix() for root in roots for f in root.rglob("*.scala")}
    yield from (f"{page}: the source file {name}.scala is missing in the table" for name in sorted(there - listed))
    yield from (f"{page}: there is no source file {name}.scala" for name in sorted(listed - there))


def main() -> int:
    """0 when the documentation is in order; otherwise 1, with what is not on standard error."""
    settings = (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")
    problems = [
        *stale_pages(),
        *misplaced_sources(_CONNECTOR / "README.md", _CONNECTOR / "src"),
        *missing_keys(reads(PROJECT), settings),
        *stale_files(PROJECT),
        *size_problems(PROJECT),
    ]
    for page in pages(PROJECT):
        problems += [*broken_links(page), *broken_examples(page)]
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
