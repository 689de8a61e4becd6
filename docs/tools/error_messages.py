"""Reads the templates of error messages out of the Python sources; ``scala_messages`` reads those of Scala.

A placeholder is named after the noun before it (``table <…>``), else after the variable. Constants are shown with their
value, and a text that only some cases have stands in brackets.
"""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

PROJECT = Path(__file__).resolve().parents[2]
_FOLDERS = ("metastore", "catalog_ext")
# Users cannot meet these: faults of tests, and errors of requests that only a client other than the connector can send.
_LEFT_OUT = ("metastore/commit/fault_points.py", "catalog_ext/service/messages/")
LONGEST_TEXT = 150


@dataclass(frozen=True)
class Hole:
    """An expression in a message, and the noun that its variables give; None where they give none."""

    expression: str
    noun: str | None


@dataclass(frozen=True)
class Choice:
    """Two texts, of which a message has one."""

    first: Sequence[Piece]
    second: Sequence[Piece]


Piece = str | Hole | Choice


class _Function:
    """A function's local names, and the texts of those that are assigned once."""

    def __init__(self, node: ast.AST | None = None, outer: Iterable[str] = ()) -> None:
        self.names = set(outer)
        self.texts: dict[str, ast.expr] = {}
        if node is None:
            return
        seen: list[str] = []
        for child in ast.walk(node):
            match child:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                    seen.append(name)
                case ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                    seen.append(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.texts[name] = value
        self.names |= set(seen)
        self.texts = {name: value for name, value in self.texts.items() if seen.count(name) == 1}


class _Module:
    """The messages of one Python module."""

    def __init__(self, path: Path, classes: Container[str]) -> None:
        self._classes = classes
        relative = path.relative_to(PROJECT).with_suffix("")
        dotted = ".".join(p for p in relative.parts if p != "__init__")
        name = dotted if dotted.startswith("catalog_ext") else f"catalog_ext.{dotted}"
        self._globals = vars(importlib.import_module(name))
        self._tree = ast.parse(path.read_text(encoding="utf-8"))

    def messages(self) -> Iterator[tuple[str, str]]:
        yield from self._messages(self._tree, _Function())

    def _messages(self, node: ast.AST, function: _Function) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = _Function(node, function.names)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in self._classes:
                yield name, rendered(list(self._pieces(node.args[0], function)))
        for child in ast.iter_child_nodes(node):
            yield from self._messages(child, function)

    def _pieces(self, node: ast.expr, function: _Function) -> Iterator[Piece]:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=values):
                for value in values:
                    yield from self._pieces(value, function)
            case ast.FormattedValue(value=value):
                yield from self._pieces(value, function)
            case ast.IfExp(body=body, orelse=orelse):
                yield Choice(list(self._pieces(body, function)), list(self._pieces(orelse, function)))
            case ast.Call(func=ast.Name(id="did_you_mean")):
                yield Choice(["Did you mean ", Hole(ast.unparse(node), "similar name"), "? "], [])
            case ast.Name(id=name) if self._text_of(name, function) is not None:
                yield from self._text_of(name, function) or ()
            case _ if (constant := self._constant(node, function)) is not None:
                yield constant
            case _:
                yield Hole(ast.unparse(node), _noun(node))

    def _text_of(self, name: str, function: _Function) -> list[Piece] | None:
        """The text that a local variable has, where that is short and made of literals."""
        node = function.texts.get(name)
        if node and "characters)" in ast.unparse(node):  # A value that is cut where it is long.
            return None
        if not isinstance(node, ast.IfExp | ast.JoinedStr | ast.Constant | ast.Call):
            return None
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") != "did_you_mean":
            return None
        if isinstance(node, ast.IfExp) and not _has_text(node.body) and not _has_text(node.orelse):
            return None
        if isinstance(node, ast.JoinedStr) and not _has_text(node):
            return None
        pieces = list(self._pieces(node, function))
        return pieces if len(rendered(pieces)) <= LONGEST_TEXT else None

    def _constant(self, node: ast.expr, function: _Function) -> str | None:
        """The value of an expression over the module's constants."""
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and (child.id in function.names or child.id == "self"):
                return None
            if isinstance(child, ast.Call) and not _is_plain(child.func):
                return None
            if isinstance(child, ast.comprehension | ast.Lambda | ast.Starred):
                return None
        value = eval(ast.unparse(node), dict(self._globals))
        text = str(value)
        return text if isinstance(value, str | int) and len(text) <= LONGEST_TEXT else None


def _has_text(node: ast.expr) -> bool:
    """Whether an expression has a word of its own, not only punctuation."""
    return any(
        isinstance(child, ast.Constant) and isinstance(child.value, str) and re.search(r"[a-z]{2}", child.value)
        for child in ast.walk(node)
    )


def _is_plain(function: ast.expr) -> bool:
    """Whether a called function only puts texts together."""
    return (isinstance(function, ast.Attribute) and function.attr in {"join", "upper", "values"}) or (
        isinstance(function, ast.Name) and function.id in {"sorted", "list", "str", "repr", "map"}
    )


def python_messages(classes: Container[str]) -> Iterator[tuple[str, str]]:
    """The messages at all places of the sources that make an error of one of the classes, with the class."""
    for path in sorted(path for folder in _FOLDERS for path in (PROJECT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Error" in text and not str(path.relative_to(PROJECT)).startswith(_LEFT_OUT):
            yield from _Module(path, classes).messages()


# Functions that only write their argument in another way.
_WRITERS = {
    "_counted", "_first_line", "_shown", "authority", "counted", "list", "map", "max", "min", "repr", "set", "shown",
    "shown_url", "sorted", "str",
}  # fmt: skip


def _noun(node: ast.AST) -> str | None:
    """Name what an expression shows: the last name of its subject; None where it has no single one."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return words(key)
        case ast.Subscript(value=value):
            return _noun(value)
        case ast.Attribute(value=ast.Call(func=ast.Name(id="type")), attr="__name__"):
            return "type"
        case ast.Attribute(value=ast.Name(id="error"), attr="message" | "strerror"):
            return "error"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return words(name)
        case ast.Call(func=ast.Name(id="len")):
            return "count"
        case ast.Call(func=ast.Name(id="server_message")):
            return "error"
        case ast.Call(func=ast.Name(id=name)) if name not in _WRITERS:
            return words(name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return words(name)
        case ast.Call(func=ast.Attribute(value=value, attr="get" | "partition" | "removeprefix" | "rstrip")):
            return _noun(value)
        case ast.Call(args=[first, *_]) | ast.BoolOp(values=[first, *_]):
            return _noun(first)
        case ast.Call(func=ast.Attribute(value=value)):
            return _noun(value)
        case ast.GeneratorExp(generators=[loop]) | ast.ListComp(generators=[loop]):
            return _noun(loop.iter)
        case _:
            return None


def words(name: str) -> str | None:
    """The words of a variable's name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip("_")).replace("_", " ").lower() or None


_NOUNS = {
    "application", "argument", "bucket", "catalog", "class", "column", "database", "directory", "field", "file",
    "folder", "format", "function", "header", "index", "jar", "key", "location", "lock", "metastore", "mode",
    "namespace", "operation", "option", "partition", "path", "pattern", "predicate", "procedure", "property", "query",
    "queue", "retention", "revision", "scheme", "setting", "status", "table", "transaction", "type", "user", "value",
    "version", "view", "write",
}  # fmt: skip
_PROGRAMS = {"Java", "PySpark", "Scala", "Spark"}
_SYNONYMS = {
    "app id": "application id", "authority": "host", "base": "version", "because": "reason", "below": "location",
    "boto code": "error code", "by name": "names", "catalog name": "catalog", "catalog string": "type",
    "cause": "error", "close": "similar name", "code": "error code", "conversion problem": "problem",
    "data type": "type", "default": "default value", "default extname": "format", "directories": "directory",
    "doc": "meaning of the setting", "drivername": "database", "exporter": "value", "extra": "package",
    "failure": "error", "field names": "columns", "get": "pattern", "get message": "error",
    "get simple name": "change", "get type": "type", "given": "value", "head": "column", "home": "folder",
    "ident": "table", "identifier": "table", "in data file": "value", "install java": "how to install Java",
    "into": "table", "java": "Java program", "json": "offset", "key types": "types", "known as": "other spelling",
    "left": "type", "length": "count", "log tail": "last lines of its log", "meant": "similar name",
    "module": "Python package", "near": "similar name", "new": "new type", "node": "names", "nonconforming": "paths",
    "of nanoseconds": "reason", "old": "old type", "outbox id": "message id", "output": "columns", "parent": "folder",
    "partition column names": "columns", "partitioned on": "columns", "place": "location",
    "promotion": "way of writing", "pyspark requirement": "PySpark package", "qualified name": "table",
    "right": "other type", "said": "answer of the store", "serde": "SerDe", "serde name": "SerDe",
    "spark": "Spark version", "split": "key", "sql": "type", "stderr": "output", "table name": "table",
    "then": "reason", "to seconds": "seconds", "to string": "error", "twin": "other spelling", "uri": "URI",
    "uris": "URIs", "wait s": "seconds", "why": "reason",
}  # fmt: skip
# Variables that hold a value which the message refuses, at its beginning.
_REFUSED = {"given", "item", "name", "text"}
_KEEPS_NAME = re.compile(r" id$|^number$|^count$|^what |clause$")


def rendered(pieces: Sequence[Piece]) -> str:
    """The message: ``<noun>`` for what it shows, ``[text]`` for what it may lack, ``(one | other)`` for a choice."""
    return _rendered(pieces, "", {})


def _rendered(pieces: Sequence[Piece], before: str, taken: dict[str, str]) -> str:
    text = ""
    for place, piece in enumerate(pieces):
        match piece:
            case str():
                text += piece
            case Hole():
                following = pieces[place + 1] if place + 1 < len(pieces) else ""
                text += f"<{_placeholder(piece, before + text, following, taken)}>"
            case Choice(first=first, second=second):
                one, other = (_rendered(side, before + text, taken) for side in (first, second))
                text += f"({one} | {other})" if one and other else f"[{one or other}]"
    return text


def _placeholder(hole: Hole, before: str, following: Piece, taken: dict[str, str]) -> str:
    """A noun for the hole that no other expression of the message has."""
    if hole.expression in taken.values():
        return next(noun for noun, expression in taken.items() if expression == hole.expression)
    noun = hole.noun
    last = re.search(r"([A-Za-z]+)['\"(]*\s+['\"]?$", before)
    word = last[1] if last else ""
    qualifies = following == "." and not before.endswith(" ")
    if noun and _KEEPS_NAME.search(noun):
        pass
    elif re.search(r"(?i)table ['\"]?$", before) and following == ".":
        noun = _SYNONYMS.get(noun or "", noun)
    elif re.search(r"(?i)table ['\"(]*<[a-z ]+>\.$", before):
        noun = "table"
    elif word.lower() in _NOUNS and word != "Write" and not qualifies:
        noun = word.lower()
    elif word in _PROGRAMS:
        noun = f"{word} version"
    elif (
        not before and noun in _REFUSED and isinstance(following, str) and following.startswith((" is no ", " is not "))
    ):
        noun = "value"
    noun = _SYNONYMS.get(noun or "", noun) or "…"
    while taken.setdefault(noun, hole.expression) != hole.expression:
        noun = f"other {noun}"
    return noun
