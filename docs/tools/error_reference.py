"""Writes docs/errors.md: every error class with its meaning, its remedy and its messages, from the sources.

Meaning and remedy are the docstrings of ``catalog_ext.metastore.errors`` and the comments of the connector's own
conditions in ``ConnectorErrors.scala``; the messages are the texts at the places that raise them.

``python -m docs.tools.error_reference`` writes the page, with ``--check`` it exits with 1 if that is out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).resolve().parents[2]
_SCALA = PROJECT / "catalog_ext" / "connector" / "src"
_PREFIX = "CATALOG_EXT_"
_CONDITION = re.compile(
    r"(?:/\*\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?val (?P<name>\w+): Condition = "
    r'own\("(?P<code>\w+)", "(?P<sqlstate>\w+)"\)',
    re.S,
)
_RAISED = re.compile(r"ConnectorErrors\.(?P<maker>analysis|runtime|notSupported)\(")
_NAME = re.compile(r"\s*(?:ConnectorErrors\.)?(?P<name>[A-Z]\w*)\s*,\s*")


class UndocumentedError(Exception):
    """An error class or a condition that says neither what it means nor what to do."""


@dataclass
class Described:
    """An error as the page shows it.

    Attributes:
        sqlstate: What JDBC clients branch on.
        python: Name of its Python class; None for a condition of the connector alone.
        messages: With placeholders in angle brackets.
    """

    code: str
    meaning: str
    remedy: str
    sqlstate: str
    python: str | None = None
    retryable: bool = False
    messages: set[str] = field(default_factory=set)


def described() -> dict[str, Described]:
    """Every error, by its code.

    Raises:
        UndocumentedError: One has no documentation, or the connector has another SQLSTATE for it than its class.
    """
    found = {c.code: _of_class(c) for c in _classes(errors.CatalogExtError)}
    names = {}
    for match in _CONDITION.finditer((_one("ConnectorErrors.scala")).read_text(encoding="utf-8")):
        code = _PREFIX + match["code"]
        names[match["name"]] = code
        if code not in found:
            text = re.sub(r"\s*\n\s*\*\s*", " ", match["comment"] or "")
            found[code] = Described(
                code, *_meaning_and_remedy(text, f"The condition {match['name']}"), match["sqlstate"]
            )
        elif found[code].sqlstate != match["sqlstate"]:
            raise UndocumentedError(
                f"{code} has the SQLSTATE {found[code].sqlstate} in Python and {match['sqlstate']} in the connector."
            )
    for class_name, message in _python_messages():
        kind = getattr(errors, class_name, None)
        if isinstance(kind, type) and issubclass(kind, errors.CatalogExtError):
            found[kind.code].messages.add(message)
    for code, message in _scala_messages(names):
        found[code].messages.add(message)
    return found


def _one(name: str) -> Path:
    (path,) = _SCALA.rglob(name)
    return path


def _classes(root: type[errors.CatalogExtError]) -> Iterator[type[errors.CatalogExtError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__.startswith(f"{errors.__name__}."):
            yield from _classes(kind)


def _of_class(kind: type[errors.CatalogExtError]) -> Described:
    meaning, remedy = _meaning_and_remedy(kind.__doc__ or "", kind.__name__)
    return Described(kind.code, meaning, remedy, kind.sqlstate, kind.__name__, kind.retryable)


def _meaning_and_remedy(text: str, what: str) -> tuple[str, str]:
    meaning, remedy, rest = text.partition("Remedy: ")
    if not meaning.strip() or not remedy:
        raise UndocumentedError(f"{what} needs a sentence of what it means, and one that begins with 'Remedy: '.")
    message = " ".join(rest.split("\n\n")[0].split())
    return " ".join(meaning.split()), message[0].upper() + message[1:]


@cache
def _python_messages() -> tuple[tuple[str, str], ...]:
    """Class names and messages at all places of the sources that make an error with a text; it takes a second."""
    return tuple(_messages_in(*(PROJECT / folder for folder in ("metastore", "catalog_ext"))))


def _messages_in(*folders: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                yield name, _python_text(node.args[0])


def _python_text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = (v.value if isinstance(v, ast.Constant) else f"<{_subject(v) or '…'}>" for v in node.values)
    return "".join(map(str, parts))


def _subject(node: ast.AST) -> str | None:
    """Name what an expression shows: the last name of its subject; None where it has no single one."""
    match node:
        case ast.FormattedValue(value=value) | ast.Subscript(value=value):
            return _subject(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower() or None
        case ast.Call(func=ast.Name(id="len")):
            return "count"
        case ast.Call(args=[first, *_]) | ast.BoolOp(values=[first, *_]):
            return _subject(first)
        case ast.Call(func=ast.Attribute(value=value)):
            return _subject(value)
        case ast.GeneratorExp(generators=[loop]) | ast.ListComp(generators=[loop]):
            return _subject(loop.iter)
        case _:
            return None


def _placeholder(expression: str) -> str:
    """Name what stands in a message for an expression of Scala: its last name where it is a name, else dots."""
    last = re.fullmatch(r"(?:[\w()]+\.)*(\w+)(?:\(\))?(?:\[:?\w+\])?", expression)
    return f"<{last[1].strip('_') if last else '…'}>"


def _scala_messages(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path in sorted(_SCALA.rglob("*.scala")):
        text = path.read_text(encoding="utf-8")
        for match in _RAISED.finditer(text):
            if match["maker"] == "notSupported":
                yield names["NotSupported"], _scala_text(text, match.end())
            elif (condition := _NAME.match(text, match.end())) and condition["name"] in names:
                yield names[condition["name"]], _scala_text(text, condition.end())


def _scala_text(text: str, start: int) -> str:
    """The message that begins at ``start``: literals joined by ``+``, up to the end of the argument."""
    message, at, depth = "", start, 0
    while at < len(text):
        literal = re.compile(r's?"').match(text, at)
        if literal:
            piece, at = _literal(text, literal.end())
            message += piece
        elif depth == 0 and text[at] in ",)":
            return message
        else:
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
            # Anything that is neither a literal nor a plus stands for a text.
            if text[at].isalnum() and not message.endswith("<…>"):
                message += "<…>"
            at += 1
    return message


def _literal(text: str, at: int) -> tuple[str, int]:
    """The content of a string from behind its opening quote, and where it ends."""
    message = ""
    while text[at] != '"':
        name = re.compile(r"\$(\w+)").match(text, at)
        if text.startswith("${", at):
            end = _closing(text, at + 2)
            message += _placeholder(text[at + 2 : end])
            at = end + 1
        elif name:
            message += f"<{name[1]}>"
            at = name.end()
        else:
            at += text[at] == "\\"
            message += text[at]
            at += 1
    return message, at + 1


def _closing(text: str, at: int) -> int:
    """Where the brace that was opened before ``at`` is closed."""
    depth = 1
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1


def page() -> str:
    """The text of docs/errors.md."""
    return "\n".join(_lines(sorted(described().values(), key=lambda d: d.code))) + "\n"


def _lines(found: Sequence[Described]) -> Iterator[str]:
    yield "# Errors"
    yield "\n<!-- Made by `python -m docs.tools.error_reference`; do not edit. -->\n"
    yield "Every error of catalog-ext has a stable code, which Spark shows in brackets and `getCondition()` answers; in"
    yield "Python it is the class's `code`. In PySpark `str(error)` has the text; its `getMessage()` knows the"
    yield "conditions of Spark's own list alone, and fails with `Cannot find main error class`. Errors that Spark"
    yield "itself raises keep Spark's own conditions. A statement about partitions of our tables therefore raises our"
    yield "condition and SQLSTATE where Spark's file tables raise Spark's: handlers of SQL scripts for"
    yield "`PARTITIONS_NOT_FOUND`, `PARTITIONS_ALREADY_EXIST` or `SQLSTATE '428FT'`, and programs that compare"
    yield "`getCondition()`, have to name ours (`CATALOG_EXT_PARTITION_NOT_FOUND`, …); `FOR SQLEXCEPTION` handles both."
    yield "By what is seen instead of by code:"
    yield "[troubleshooting](troubleshooting.md).\n"
    yield "| code | SQLSTATE | meaning | try again |"
    yield "|---|---|---|---|"
    for one in found:
        again = "yes" if one.retryable else ""
        yield f"| [`{one.code}`](#{one.code.lower()}) | {one.sqlstate} | {one.meaning} | {again} |"
    for one in found:
        yield f"\n## {one.code}\n"
        yield one.meaning + (
            f" Python: `catalog_ext.metastore.errors.{one.python}`."
            if one.python
            else " Raised by the connector alone."
        )
        yield f"\n**Remedy.** {one.remedy}"
        if one.messages:
            yield "\nMessages:\n"
            yield from (f"- {_quoted(message)}" for message in sorted(one.messages))


def _quoted(message: str) -> str:
    return "`" + " ".join(message.replace("`", "'").split()) + "`"


def main(arguments: Sequence[str]) -> int:
    """0 when the page is written or, with ``--check``, up to date; else 1, and how to write it."""
    target, text = PROJECT / "docs" / "errors.md", page()
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
    elif not target.is_file() or target.read_text(encoding="utf-8") != text:
        sys.stderr.write("docs/errors.md is out of date. Run: python -m docs.tools.error_reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
