"""Finds the keys of settings that the code reads, Python and Scala, for ``make lint`` to hold the page to.

A key counts as read where a map of properties, options, settings or conf is asked for it, by a literal or by a constant
that holds one. ``docs/configuration.md`` must name each; users do not set those in ``NO_SETTINGS``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NO_SETTINGS = {
    "catalog-ext.": "what this catalog notes in the metastore's parameters and in the options of a statement's target",
    "spark.": "Spark's own, which its documentation has",
    "fs.s3a.": "Hadoop's own, which its documentation has",
    "hive.metastore.": "read from hive-site.xml",
    "table_type": "what other catalogs note in the metastore's parameters",
    "storage_handler": "what other catalogs note in the metastore's parameters",
    "request_sent": "what an error of the metastore's client says of itself",
}
"""Prefixes of keys that are read and are no settings of this catalog, each with the reason."""

_MAPS = r"(?:properties|props|options|conf|settings|userOptions|read|session|lower)"
_ACCESS = "get|getOrElse|getOrDefault|contains|containsKey|getConfString|getInt|getLong|getBoolean"
_SCALA_READ = re.compile(
    rf"\b{_MAPS}(?:\(\))?\s*\.\s*(?:{_ACCESS})\(\s*(?P<key>\"[^\"$]+\"|[A-Z]\w*(?:\.[A-Z]\w*)?)\s*[,)]"
)
_SCALA_CALL = re.compile(r"\b(?:setting|plain)\(\s*(?P<key>\"[^\"$]+\"|[A-Z]\w*(?:\.[A-Z]\w*)?)")
_SCALA_ANY_CASE = re.compile(r"\b(?:key|_1)\.equalsIgnoreCase\(\s*(?P<key>\"[^\"$]+\"|[A-Z]\w*(?:\.[A-Z]\w*)?)\s*\)")
_SCALA_CONSTANT = re.compile(r"\bval (?P<name>[A-Z]\w*)(?:: String)? = \"(?P<key>[^\"$]+)\"")
_PYTHON_MAP = re.compile(r"properties|options|settings|conf|parameters|lower")


@dataclass(frozen=True, slots=True)
class Read:
    """A place where a key is read."""

    key: str
    place: str


def reads(project: Path) -> Iterator[Read]:
    """Yield the places in both languages where the code reads a setting."""
    for folder in ("catalog_ext", "metastore"):
        for path in sorted((project / folder).rglob("*.py")):
            yield from python_reads(path.read_text(encoding="utf-8"), str(path.relative_to(project)))
    sources = {
        p: p.read_text(encoding="utf-8") for p in sorted((project / "catalog_ext/connector/src").rglob("*.scala"))
    }
    constants = {m["name"]: m["key"] for text in sources.values() for m in _SCALA_CONSTANT.finditer(text)}
    for path, text in sources.items():
        own = constants | {m["name"]: m["key"] for m in _SCALA_CONSTANT.finditer(text)}
        yield from scala_reads(text, str(path.relative_to(project)), own)


def scala_reads(text: str, place: str, constants: dict[str, str]) -> Iterator[Read]:
    """Yield what a Scala source reads; a constant that is not known holds no literal, and none of ours."""
    for pattern in (_SCALA_READ, _SCALA_CALL, _SCALA_ANY_CASE):
        for match in pattern.finditer(text):
            given = match["key"]
            key = given.strip('"') if given.startswith('"') else constants.get(given.rsplit(".", 1)[-1])
            if key is not None:
                yield Read(key, f"{place}:{text.count(chr(10), 0, match.start()) + 1}")


def python_reads(text: str, place: str) -> Iterator[Read]:
    """Yield what a Python module reads, and every ``Setting`` that it makes."""
    tree = ast.parse(text)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        key = _python_key(node)
        found = constants.get(key.id) if isinstance(key, ast.Name) else getattr(key, "value", None)
        if isinstance(found, str):
            yield Read(found, f"{place}:{node.lineno}")  # type: ignore[attr-defined]  # every node with a key has a line


def _python_key(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Call) and node.args:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "get" and _is_map(called.value):
            return node.args[0]
        if isinstance(called, ast.Name) and called.id == "property_value" and len(node.args) > 1:
            return node.args[1]
        if isinstance(called, ast.Name) and called.id == "Setting":
            return node.args[0]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_map(node.value):
        return node.slice
    return None


def _is_map(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(_PYTHON_MAP.fullmatch(name))


def missing_keys(found: Iterable[Read], page: str) -> Iterator[str]:
    """Yield a sentence for each key that is read and that the page lacks."""
    named = {name.lower() for name in re.findall(r"`([^`]+)`", page)}
    for read in found:
        if read.key.lower() not in named and not read.key.startswith(tuple(NO_SETTINGS)):
            yield f"{read.place}: reads {read.key!r}, which docs/configuration.md does not name"
