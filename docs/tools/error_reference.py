"""Writes docs/errors.md: every error class with its meaning, its remedy and its messages, from the sources.

Meaning and remedy are the docstrings of ``catalog_ext.metastore.errors`` and the comments of the connector's own
conditions in ``ConnectorErrors.scala``; the messages are the texts at the places that raise them.

``python -m docs.tools.error_reference`` writes the page, with ``--check`` it exits with 1 if that is out of date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from catalog_ext.metastore import errors
from docs.tools import error_messages, scala_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PROJECT = error_messages.PROJECT
_SCALA = PROJECT / "catalog_ext" / "connector" / "src"
_PREFIX = "CATALOG_EXT_"
_CONDITION = re.compile(
    r"(?:/\*\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?val (?P<name>\w+): Condition = "
    r'own\("(?P<code>\w+)", "(?P<sqlstate>\w+)"\)',
    re.S,
)
_RAISED = re.compile(r"ConnectorErrors\.(?P<maker>analysis|runtime|notSupported)\(")
_INTRODUCTION = """\
Every error of catalog-ext has a stable code. Spark shows it in brackets and returns it from `getCondition()`; in Python
it is the attribute `code` of the error's class in `catalog_ext.metastore.errors`. After a *retryable* error the
statement can succeed when it is run again. In PySpark use `str(error)`: `error.getMessage()` fails with
`Cannot find main error class`, because it looks the condition up in Spark's own list.

Errors that Spark itself raises keep Spark's conditions. Statements about partitions of catalog-ext tables raise the
conditions of this page: a handler for `PARTITIONS_NOT_FOUND`, `PARTITIONS_ALREADY_EXIST` or `SQLSTATE '428FT'`, or a
program that compares `getCondition()`, must name `CATALOG_EXT_PARTITION_NOT_FOUND` or
`CATALOG_EXT_PARTITION_ALREADY_EXISTS` too; `FOR SQLEXCEPTION` handles both.

In the messages `<table>` stands for the name of a table, and other words in angle brackets likewise; `[text]` appears
only in some cases, and `(one | other)` is one of the two texts. Messages about malformed requests are left out, because
only a client other than the connector can send such requests: see [the contract](spec/service.md).
[Troubleshooting](troubleshooting.md) is ordered by symptom."""
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
        found[getattr(errors, class_name).code].messages.add(message)
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
    """Class names and messages of the Python sources; reading them takes seconds."""
    return tuple(error_messages.python_messages({kind.__name__ for kind in _classes(errors.CatalogExtError)}))


def _scala_messages(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(_SCALA.rglob("*.scala"))]
    constants = scala_messages.scala_constants(texts)
    for text in texts:
        for match in _RAISED.finditer(text):
            if match["maker"] == "notSupported":
                yield names["NotSupported"], scala_messages.scala_text(text, match.end(), constants)
            elif (condition := _NAME.match(text, match.end())) and condition["name"] in names:
                yield names[condition["name"]], scala_messages.scala_text(text, condition.end(), constants)


def page() -> str:
    """The text of docs/errors.md."""
    return "\n".join(_lines(sorted(described().values(), key=lambda d: d.code))) + "\n"


def _lines(found: Sequence[Described]) -> Iterator[str]:
    yield "# Errors"
    yield "\n<!-- Made by `python -m docs.tools.error_reference`; do not edit. -->\n"
    yield _INTRODUCTION
    for one in found:
        yield f"\n## {one.code}\n"
        raised = f"Python class `{one.python}`" if one.python else "raised by the connector alone"
        again = ", retryable" if one.retryable else ""
        yield f"{one.meaning} SQLSTATE {one.sqlstate}, {raised}{again}."
        yield f"\n**Remedy.** {one.remedy}"
        if one.messages:
            yield "\nMessages:\n"
            yield from (f"- {_quoted(message)}" for message in sorted(one.messages))


def _quoted(message: str) -> str:
    text = " ".join(message.split())
    # A code span that contains a backquote is delimited by two (CommonMark 6.1).
    return f"`` {text} ``" if "`" in text else f"`{text}`"


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
