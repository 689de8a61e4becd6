"""Words, names and lengths that ``make lint`` refuses: plain English in every text.

Three checks. The refused words and phrases, in code, documentation and names. Modules of one package tree that have the
same base name, and public classes of the product that have the same name. Names of tests above 70 characters.

Each exception is listed here with its reason; an entry that no file needs any more is refused.
"""

from __future__ import annotations

import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PROJECT = Path(__file__).resolve().parents[2]

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
_TEST = re.compile(r"\s*(?:async )?def (?P<name>test_\w+)")
_OWN = frozenset({"tests/checks/plain_english_check.py", "tests/unit/tools/test_plain_english_check.py"})
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
    Place("tests/integration/compose/test_compose_story.py", '"nobody"', "the name of a user of the system"),
    Place("tests/servers/pgbouncer.py", '"nobody"', "the name of a user of the system"),
    Place("tests/servers/databases.py", '"nobody"', "the name of a user of the system"),
)


_INTERFACES = frozenset({
    "catalog_ext/cli", "catalog_ext/procedures", "catalog_ext/service/handlers", "catalog_ext/service/messages",
    "metastore/errors",
})  # fmt: skip
"""Their modules are named by the subject that they serve: the folder makes the name plain."""

SAME_MODULE_NAMES = {
    "catalog_ext/adoption": "an index adopts a metastore and a warehouse; the index adopts changed partitions",
    "catalog_ext/record": "what an index records of its home, and what it records of a repair",
    "catalog_ext/application": "the ASGI application of the page, and that of the service",
    "catalog_ext/definitions": "a table's definition: imported from the metastore, and compared for drift",
    "catalog_ext/difference": "a repair's stream of changes, and a row of the drift report",
    "catalog_ext/display": "the interface that the domain calls, and its implementation in notebooks",
    "catalog_ext/maintenance": "of partitions, and of writes",
    "catalog_ext/partitions": "imported from the metastore, and compared for drift",
    "catalog_ext/table_repair": "the use case, and its wrapper that makes Spark read the table again",
    "catalog_ext/tables": "imported one by one from the metastore, and matched by name and location",
    "metastore/alter_table": "ALTER TABLE in the index, and its message for the metastore",
    "metastore/clauses": "of Hive's CREATE TABLE, and of the database's WHERE",
    "metastore/descriptors": "the value, and its translation from and to Hive's storage descriptors",
    "metastore/failures": "translation of errors: of the stores, and of the databases",
    "metastore/json": "JSON of the model, of commits and of predicates, each beside its classes",
    "metastore/lease": "on a transaction, and on the embedded server",
    "metastore/listing": "the interface, and its implementations for local disks and S3",
    "metastore/locations": "the value, and Hadoop's spellings of it",
    "metastore/removals": "the value, and its rows in the index",
    "metastore/tables": "the value, and its rows in the index",
    "metastore/views": "the value, its rows in the index, and its messages for the metastore",
}
"""Base names of several modules below one package, as ``package/name``, and what each module is."""

SAME_CLASS_NAMES: dict[str, str] = {}
"""Names of several public classes of the product, and what each class is."""

LONGEST_TEST_NAME = 70


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
                yield f"{name}:{line}: {word!r} is refused, write plain English (tests/checks/plain_english_check.py)"
    for place in exceptions:
        if place not in needed:
            yield f"{place.file}: {place.word!r} is not there, remove it from EXCEPTIONS"
    if len(exceptions) > MOST_EXCEPTIONS:
        yield f"EXCEPTIONS has {len(exceptions)} places, at most {MOST_EXCEPTIONS}"


def module_problems(project: Path, allowed: Mapping[str, str] = SAME_MODULE_NAMES) -> Iterator[str]:
    """Yield a sentence for each base name of several modules that is not allowed, and each entry that is not needed."""
    found: dict[str, list[str]] = {}
    for file in _product_modules(project):
        place = file.relative_to(project)
        if place.parent.as_posix() not in _INTERFACES and not place.stem.startswith("__"):
            found.setdefault(f"{place.parts[0]}/{place.stem}", []).append(place.as_posix())
    several = {name: files for name, files in found.items() if len(files) > 1}
    for name in sorted(several.keys() - allowed.keys()):
        yield f"{', '.join(several[name])}: one base name, choose more precise ones or list it in SAME_MODULE_NAMES"
    yield from (f"{name}: remove it from SAME_MODULE_NAMES" for name in sorted(allowed.keys() - several.keys()))


def class_problems(project: Path, allowed: Mapping[str, str] = SAME_CLASS_NAMES) -> Iterator[str]:
    """Yield a sentence for each name of several public classes that is not allowed, and each entry not needed."""
    found: dict[str, list[str]] = {}
    for file in _product_modules(project):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(file.relative_to(project).as_posix())
    several = {name: files for name, files in found.items() if len(files) > 1}
    for name in sorted(several.keys() - allowed.keys()):
        yield f"{', '.join(several[name])}: each has a class {name}, rename one or list it in SAME_CLASS_NAMES"
    yield from (f"{name}: remove it from SAME_CLASS_NAMES" for name in sorted(allowed.keys() - several.keys()))


def long_name_problems(project: Path) -> Iterator[str]:
    """Yield a sentence for each test name that is too long."""
    for file in sorted((project / "tests").rglob("test_*.py")):
        for line, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            match = _TEST.match(text)
            if match is not None and len(match["name"]) > LONGEST_TEST_NAME:
                place = f"{file.relative_to(project)}:{line}"
                yield f"{place}: {match['name']} has more than {LONGEST_TEST_NAME} characters"


def _product_modules(project: Path) -> list[Path]:
    files = (file for package in ("catalog_ext", "metastore") for file in (project / package).rglob("*.py"))
    return sorted(file for file in files if not _is_linked(file, project))


def _is_linked(file: Path, project: Path) -> bool:
    return any(parent.is_symlink() for parent in file.parents if parent != project and project in parent.parents)


def main() -> int:
    """0 when the text is in order; otherwise 1, with what is not on standard error."""
    problems = [
        *word_problems(PROJECT),
        *module_problems(PROJECT),
        *class_problems(PROJECT),
        *long_name_problems(PROJECT),
    ]
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
