"""Finds an existing index near a mistyped path, for the messages about a missing or newly created index."""

from __future__ import annotations

import difflib
import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.index.database.sqlite_file import Contents, holds_index
from catalog_ext.metastore.runtime.private_files import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

_NEARLY = 0.5
_WHAT = {
    Contents.OTHERS: "This SQLite database has other tables, and no index of catalog-ext:",
    Contents.FOLDER: "An index is a file, and this is a folder:",
}
_LOOKED_AT = 500
"""The most entries of a folder that are searched."""


def no_index(file: Path, found: Contents) -> InvalidConfigurationError:
    """Return the error for an index that does not exist, or for a file that belongs to another program."""
    problem = _WHAT.get(found, "There is no index at")
    near = nearest_index(file)
    question = "" if near is None else f" Did you mean --index {shlex.quote(_short(near))}?"
    return InvalidConfigurationError(
        f"{problem} {file}.{question} Name the right one by --index, or work in its folder; catalog-ext init makes "
        "one.",
        {"index": str(file)} | ({} if near is None else {"nearest": str(near)}),
    )


def log_new_index(file: Path, near: Path | None) -> None:
    """Log that a new index was created. Warn if an existing index is near it, which the user may have meant."""
    if near is None:
        logger.info("There was no index at %s: a new one was made.", file)
    else:
        logger.warning(
            "There was no index at %s: a new one was made, which has no tables. If that was a slip, name the one that "
            "is near it: %s (index=… in Python, --index on the command line).", file, _short(near),
        )  # fmt: skip


def nearest_index(file: Path) -> Path | None:
    """Return an existing index whose path resembles a mistyped path; None if there is no similar path."""
    return next((each for each in _candidates(file) if each != file and holds_index(each)), None)


def _candidates(file: Path) -> Iterator[Path]:
    # The path may name the folder that contains the index file.
    yield from (file / "index.db", file / STATE_FOLDER / "index.db")
    there = next(folder for folder in file.parents if folder.is_dir())
    wrong, *rest = file.relative_to(there).parts
    try:
        names = sorted(entry.name for entry, _ in zip(there.iterdir(), range(_LOOKED_AT), strict=False))
    except OSError:
        names = []
    near = difflib.get_close_matches(wrong, names, 5, _NEARLY)
    # Other possible mistakes: a misspelled folder or file name, a missing file name, another file in the folder, or the
    # project's folder.
    yield from (there.joinpath(name, *rest) for name in near)
    yield from (there / name / end for name in near for end in ("index.db", f"{STATE_FOLDER}/index.db"))
    yield from (there / name for name in names)
    for folder in (*file.parents, Path.cwd(), *Path.cwd().parents):
        yield folder / STATE_FOLDER / "index.db"


def _short(path: Path) -> str:
    """Return the path, relative to the current folder if it is below that."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
