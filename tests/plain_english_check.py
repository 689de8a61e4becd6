"""Words, names and lengths that ``make lint`` refuses: see ``docs/design`` and CONTRIBUTING.md, "Plain English".

Three checks. The refused words and phrases, in code, documentation and names. Modules of one package tree that have the
same base name, and public classes of the product that have the same name. Names of tests above 70 characters.

Each exception is listed here with its reason; an entry that no file needs any more is refused.
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PROJECT = Path(__file__).resolve().parents[1]

_WORDS = (
    "somebody",
    "nobody",
    "whoever",
    "everybody",
    "anybody",
    "someone.s",
    "strangers?",
    "untold",
    "told",
    "tells?",
    "heirs?",
    "manieth",
)
_PHRASES = (
    "comes? to the same",
    "ha(?:s|ve) yet to",
    "in step",
    "lets? go of",
    "goes by",
    "of which what",
    "what there is",
    "what it is to be",
)
_GAP = r"[\s_#*/]+"
"""Between the words of a phrase: blanks, an underscore of a name, or a line end with the mark of a comment."""
_REFUSED = re.compile(
    r"(?<![A-Za-z0-9])(?:(?i:"
    + "|".join([*_WORDS, *(phrase.replace(" ", _GAP) for phrase in _PHRASES)])
    # Not `is None`, which is Python.
    + rf")|(?:is|Is|IS){_GAP}none)(?![A-Za-z0-9])"
)
_ORDINAL = re.compile(r"in step(?= \d)")
"""Of numbered steps: "in step 2"."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIXES = frozenset({".py", ".scala", ".java"})
_PICTURES = frozenset({".png", ".gz", ".ico"})
_FOLDERS = ("catalog_ext", "metastore", "migrations", "release", "spark_conf", "examples", "docker", "tests", "docs")
_OWN = frozenset({"tests/plain_english_check.py", "tests/unit/tools/test_plain_english_check.py"})
"""These two quote the words."""


class Place(NamedTuple):
    """Where a refused word is right.

    Attributes:
        file: The path from the project's root, or a pattern of ``fnmatch``.
        word: In lower case, with single blanks; ``"word"`` is only a value: the word between quotes or backticks.
        reason: Why it stays.
    """

    file: str
    word: str
    reason: str


MOST_EXCEPTIONS = 20
EXCEPTIONS = (
    Place("*", '"in step"', "a public value: of publish, export, status, the page, and of a metric's label"),
    Place("*", '"nobody"', "a public value: the follower's state in `status`"),
    Place("catalog_ext/metastore_sync/sync.py", "in step", "the public value `not in step: …`"),
)


def checked_files(project: Path) -> list[Path]:
    """The files whose words are checked: sources, everything below docs/, README.md and CHANGELOG.md."""
    found = [project / "README.md", project / "CHANGELOG.md"]
    for folder in _FOLDERS:
        for file in (project / folder).rglob("*"):
            wanted = file.suffix in _SUFFIXES or (folder == "docs" and file.suffix not in _PICTURES)
            if wanted and "__pycache__" not in file.parts and not _is_linked(file, project):
                found.append(file)
    return sorted(file for file in found if file.is_file() and file.relative_to(project).as_posix() not in _OWN)


def refused_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of each refused word in a text, written as in ``Place.word``."""
    # A name in camel case is several words; a line keeps its number.
    text = _CAMEL.sub("_", text)
    for match in _REFUSED.finditer(text):
        word = re.sub(_GAP, " ", match[0].lower())
        before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
        if before == after and before in {'"', "'", "`"}:
            word = f'"{word}"'
        if not _ORDINAL.match(text, match.start()):
            yield text.count("\n", 0, match.start()) + 1, word


def word_problems(project: Path, exceptions: Collection[Place] = EXCEPTIONS) -> Iterator[str]:
    """Yield a sentence for each refused word without an exception, and for each exception that is not needed."""
    needed = set()
    for file in checked_files(project):
        name = file.relative_to(project).as_posix()
        for line, word in refused_words(file.read_text(encoding="utf-8")):
            fitting = {place for place in exceptions if place.word == word and fnmatch(name, place.file)}
            needed |= fitting
            if not fitting:
                yield f"{name}:{line}: {word!r} is refused, write plain English (tests/plain_english_check.py)"
    for place in exceptions:
        if place not in needed:
            yield f"{place.file}: {place.word!r} is not there, remove it from EXCEPTIONS"
    if len(exceptions) > MOST_EXCEPTIONS:
        yield f"EXCEPTIONS has {len(exceptions)} places, at most {MOST_EXCEPTIONS}"


def _is_linked(file: Path, project: Path) -> bool:
    return any(parent.is_symlink() for parent in file.parents if parent != project and project in parent.parents)


def main() -> int:
    """0 when the text is in order; otherwise 1, with what is not on standard error."""
    problems = [*word_problems(PROJECT)]
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
