"""Limits of size in product code, for ``make lint``: 45 lines a function, 400 lines a module.

``OVERSIZED`` lists the places that are still above a limit. It can only shrink: a new place is refused, and so is an
entry that is not needed any more.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

FUNCTION_LINES = 45
MODULE_LINES = 400
FOLDERS = ("catalog_ext", "metastore")

OVERSIZED: frozenset[str] = frozenset()
"""Modules by their path, functions as ``path::name``."""


def oversized(project: Path) -> Iterator[tuple[str, int, int]]:
    """Yield each function and module of product code above its limit: the place, its lines, and the limit.

    A function's lines run from ``def`` to its last statement, docstring and nested functions included; decorators, such
    as the options of a command, are a table beside it and do not count.
    """
    for folder in FOLDERS:
        # The links inside catalog_ext lead to folders that are read by their own names.
        for file in sorted(file for file in (project / folder).rglob("*.py") if not _is_linked(file, project)):
            place, text = file.relative_to(project).as_posix(), file.read_text(encoding="utf-8")
            lines = len(text.splitlines())
            if lines > MODULE_LINES:
                yield place, lines, MODULE_LINES
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    if lines > FUNCTION_LINES:
                        yield f"{place}::{node.name}", lines, FUNCTION_LINES


def size_problems(project: Path, allowed: Collection[str] = OVERSIZED) -> Iterator[str]:
    """Yield a sentence for each place above its limit that is not allowed, and each allowed place within its limit."""
    found = {place: (lines, limit) for place, lines, limit in oversized(project)}
    for place, (lines, limit) in found.items():
        if place not in allowed:
            yield f"{place}: {lines} lines, at most {limit}. Split it by subject."
    yield from (
        f"{place}: within the limits, remove it from OVERSIZED" for place in sorted(set(allowed) - found.keys())
    )


def _is_linked(file: Path, project: Path) -> bool:
    return any(parent.is_symlink() for parent in file.parents if parent != project and project in parent.parents)
