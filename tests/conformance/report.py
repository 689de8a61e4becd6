"""Writes docs/conformance.md: each requirement of the source documents, with the test that shows it.

A test says what it shows by ``@pytest.mark.requirement("ID")``, with ``differs`` where we do on purpose something else.
The statement in the page is the test's own: the first SQL text in its body, or the one that begins with the marker's
``statement``. Where that text has placeholders, the page shows what the test has sent to Spark with them filled in;
``statements.json`` keeps it (``tests/conformance/recording.py``).

``python -m tests.conformance.report`` writes the page, with ``--check`` it exits with 1 if that is out of date or a
requirement has no test; ``--missing`` lists those that have none.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import requirements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "conformance.md"
_SQL = re.compile(
    r"\s*(SELECT|INSERT|CREATE|ALTER|DROP|SHOW|DESC|DESCRIBE|MSCK|CALL|TRUNCATE|ANALYZE|WITH|FROM|DELETE|USE|SET|CACHE|EXPLAIN|"
    r"REFRESH|COMMENT|EXECUTE|VALUES|MERGE|REPLACE)\s"
)
_FSTRING = re.compile(r"\bf'([^']*)'")
_PLACEHOLDER = re.compile(r"\{[A-Za-z_]+\}")
_EXAMPLES = {"{t}": "/data/trips", "{table}": "trips", "{NAMESPACE}": "sales"}
"""What is shown for placeholders that tests fill in by themselves, and that are not recorded therefore."""

RECORDED = Path(__file__).with_name("statements.json")
_DOCUMENTS: Sequence[tuple[str, Sequence[str] | Mapping[str, str]]] = (
    ("ClickHouse: SRS-045 Hive Partitioning", requirements.SRS_045),
    ("Hive: DynamicPartitions", requirements.HIVE_DYNAMIC_PARTITIONS),
    ("Hive: PartitionedViews", requirements.HIVE_PARTITIONED_VIEWS),
    ("Flink: FLIP-63 Rework table partition support", requirements.FLINK_FLIP_63),
    ("Apache Doris: Hive catalog", requirements.DORIS_HIVE),
)


class ConformanceError(Exception):
    """A marker that cannot be reported: an unknown requirement, or a statement that the test does not have."""


@dataclass(frozen=True)
class Shown:
    """A requirement that a test shows.

    Attributes:
        path: The test's module, relative to the project.
        statement: SQL or Python, on one line.
        pattern: Of a text with placeholders, the expression that the text matches with them filled in; else None.
        differs: What differs from the document on purpose, or None.
    """

    requirement: str
    path: str
    test: str
    statement: str
    differs: str | None
    pattern: str | None = None

    @property
    def key(self) -> str:
        """The name of its statement among those that are recorded."""
        return f"{self.path}::{self.test} {self.requirement}"


def shown(tests: Path) -> list[Shown]:
    """What the markers of all test modules below a directory say, in the order of path and line.

    Raises:
        ConformanceError: A marker names no requirement, or a statement that its module does not have.
    """
    found: list[Shown] = []
    for module in sorted(tests.rglob("test_*.py")):
        found += shown_in(module, module.relative_to(tests.parent).as_posix())
    return found


@cache
def shown_in(module: Path, path: str) -> tuple[Shown, ...]:
    """What the markers of a test module say; ``path`` is its name in the page.

    Raises:
        ConformanceError: As ``shown``.
    """
    tree = ast.parse(module.read_text(encoding="utf-8"))
    tests = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    return tuple(shown for test in tests for shown in _marked(tree, test, path))


def _marked(tree: ast.Module, test: ast.FunctionDef, path: str) -> Iterator[Shown]:
    # Decorators apply from below, and so are they read.
    for decorator in reversed(test.decorator_list):
        if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "pytest.mark.requirement":
            continue
        where = f"{path}::{test.name}"
        try:
            (name,) = (ast.literal_eval(a) for a in decorator.args)
            options = {str(k.arg): ast.literal_eval(k.value) for k in decorator.keywords}
        except ValueError as error:
            raise ConformanceError(f"{where}: a requirement's marker takes literals only.") from error
        if name not in requirements.REQUIREMENTS or set(options) - {"statement", "differs"}:
            raise ConformanceError(
                f"{where}: {name!r} is no requirement of tests/conformance/requirements.py, or an option of its marker "
                "is neither statement nor differs."
            )
        chosen = _statement(tree, test, options.get("statement"), where)
        yield Shown(name, path, test.name, chosen.text, options.get("differs"), chosen.pattern)


@dataclass(frozen=True)
class _Text:
    text: str
    pattern: str | None = None


def _statement(tree: ast.Module, test: ast.FunctionDef, beginning: str | None, where: str) -> _Text:
    texts = [*_texts(test), *_texts(tree)]
    code = [
        _one_line(ast.unparse(n))
        for n in ast.walk(test)
        if isinstance(n, ast.Expr | ast.Assign | ast.Assert | ast.With)
    ]
    if beginning is None:
        candidates = [t for t in _texts(test) if _SQL.match(t.text)] or [t for t in texts if _SQL.match(t.text)]
    else:
        candidates = [t for t in texts if t.text.startswith(beginning)] or [
            _Text(c[c.index(beginning) :]) for c in code if beginning in c
        ]
    if not candidates:
        said = f"begins with {beginning!r}" if beginning else "is SQL; name some of its code in the marker's statement"
        raise ConformanceError(f"{where}: no text of the test or its module {said}.")
    return candidates[0]


def _texts(tree: ast.AST) -> list[_Text]:
    """The texts below a node in the order of the source, with placeholders as in an f-string, each on one line."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner)
    ]
    marked = {id(part) for node in ast.walk(tree) if _is_no_statement(node) for part in ast.walk(node)}
    nodes = sorted((n for n in nodes if id(n) not in marked), key=lambda n: (n.lineno, n.col_offset))
    return [_text(node) for node in nodes]


def _is_no_statement(node: ast.AST) -> bool:
    """Whether it is a marker or a docstring."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement"


def _text(node: ast.Constant | ast.JoinedStr) -> _Text:
    if isinstance(node, ast.Constant):
        return _Text(_one_line(str(node.value)))
    filled = [v.value if isinstance(v, ast.Constant) else None for v in node.values]
    text = "".join(
        "{" + ast.unparse(getattr(v, "value", v)) + "}" if part is None else str(part)
        for v, part in zip(node.values, filled, strict=True)
    )
    # White space is one blank in both the source and what was sent; next to a placeholder there may be more or none.
    pattern = "".join(
        ".*?" if part is None else r"\s+".join(map(re.escape, re.split(r"\s+", str(part)))) for part in filled
    )
    return _Text(_one_line(text), pattern.replace(r"\s+.*?", r"\s*.*?").replace(r".*?\s+", r".*?\s*"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Sent:
    """A statement that a test has sent to Spark.

    Attributes:
        case: The test with its parameters.
        statement: The text on one line, with stable names for what differs from run to run.
    """

    case: str
    statement: str


def recorded() -> dict[str, Sent]:
    """The statements that tests have sent, by ``Shown.key``."""
    if not RECORDED.is_file():
        return {}
    return {key: Sent(**row) for key, row in json.loads(RECORDED.read_text(encoding="utf-8")).items()}


def unrecorded(found: Sequence[Shown], sent: Mapping[str, Sent]) -> list[str]:
    """The keys of statements with placeholders that are not recorded, and of recorded ones that are not used."""
    wanted = {s.key for s in found if s.pattern is not None}
    return sorted(wanted ^ set(sent))


def missing(found: Sequence[Shown]) -> list[str]:
    """The requirements without a test, in the documents' order."""
    known = {s.requirement for s in found}
    return [name for name in requirements.REQUIREMENTS if name not in known]


def page(found: Sequence[Shown], sent: Mapping[str, Sent]) -> str:
    """The text of docs/conformance.md; ``sent`` are the recorded statements."""
    filled = [replace(s, statement=sent[s.key].statement) if s.key in sent else s for s in found]
    return "\n".join(_lines(filled)) + "\n"


def _lines(found: Sequence[Shown]) -> Iterator[str]:
    yield "# Conformance"
    yield "\n<!-- Made by `python -m tests.conformance.report`; do not edit. -->\n"
    yield "The requirements of the five documents that catalog-ext follows. Each row has a statement that shows the"
    yield "requirement, and the tests that run this statement; tests use other names of folders, hosts and buckets. The"
    yield "last column says where catalog-ext differs from the document on purpose.\n"
    for title, names in _DOCUMENTS:
        yield f"## {title}\n"
        yield "| requirement | statement | shown by | differs on purpose |"
        yield "|---|---|---|---|"
        for name in names:
            yield _row(name, [s for s in found if s.requirement == name])
        yield ""


def _row(name: str, tests: Sequence[Shown]) -> str:
    heading = requirements.REQUIREMENTS[name]
    shown = f"`{name}`" if heading == name else f"`{name}`<br>{heading}"
    statement = _code(tests[0].statement) if tests else ""
    links = "<br>".join(f"[{s.test}](../{s.path})" for s in tests)
    differs = "<br>".join(dict.fromkeys(_cell(s.differs) for s in tests if s.differs))
    return f"| {shown} | {statement} | {links or '**nothing**'} | {differs} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    """The text as code in a cell of a table; what contains backticks stands between two of them.

    Raises:
        ConformanceError: It has a placeholder, so that it would not run as it stands.
    """
    text = _FSTRING.sub(r"'\1'", text)
    for placeholder, example in _EXAMPLES.items():
        text = text.replace(placeholder, example)
    if _PLACEHOLDER.search(text):
        raise ConformanceError(f"The statement {text!r} has a placeholder: give it an example in {__name__}.")
    return f"`` {_cell(text)} ``" if "`" in text else f"`{_cell(text)}`"


def main(arguments: Sequence[str]) -> int:
    """0 when the page is written or, with ``--check``, up to date and whole; else 1, and what is wrong."""
    found = shown(PROJECT / "tests")
    if "--missing" in arguments:
        sys.stdout.write("".join(f"{name}: {requirements.REQUIREMENTS[name]}\n" for name in missing(found)))
        return 0
    sent = recorded()
    if "--check" not in arguments:
        PAGE.write_text(page(found, sent), encoding="utf-8")
        return 0
    problems = [f"No test shows the requirement {name}.\n" for name in missing(found)]
    problems += [
        f"{key}: run it with --record-statements: its text has placeholders, or has them no longer.\n"
        for key in unrecorded(found, sent)
    ]
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page(found, sent):
        problems.append("docs/conformance.md is out of date. Run: python -m tests.conformance.report\n")
    sys.stderr.writelines(problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
