"""Names of files and directories that do not belong to a table: hidden ones, S3 markers, and the user's globs."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.model.properties import property_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IGNORED_NAMES_PROPERTY = "ignored-names"

_MARKER = "_$folder$"
_MOST_LENGTH = 1000


class IgnoredNames:
    """Decides which files and directories do not belong to a table.

    Args:
        patterns: Globs of names (``*``, ``?``, ``[…]``); case matters.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._expression = re.compile("|".join(map(translate, patterns))) if patterns else None

    @staticmethod
    def of(properties: Mapping[str, str]) -> IgnoredNames:
        """Return the ignored names of a table with these properties.

        Raises:
            InvalidConfigurationError: The property is not a list of globs. An imported table may have any text there.
        """
        text = property_value(properties, IGNORED_NAMES_PROPERTY) or ""
        try:
            return _parsed(text)
        except ValueError as error:
            raise InvalidConfigurationError(
                f"The table property {IGNORED_NAMES_PROPERTY!r} has the value {text[:100]!r}, which is not valid: "
                f"{error}. Set it again with ALTER TABLE … SET TBLPROPERTIES.",
                {"key": IGNORED_NAMES_PROPERTY, "value": text[:100]},
            ) from None

    @property
    def has_globs(self) -> bool:
        """Whether the table's property lists globs."""
        return self._expression is not None

    def directory(self, name: str) -> bool:
        """Return whether a directory of this name, with everything in it, does not belong to the table."""
        return is_hidden(name) or self.is_matched(name)

    def file(self, name: str) -> bool:
        """Return whether a file of this name does not belong to the table."""
        # This runs for each file of a listing, so the checks of ``is_hidden``, ``is_marker`` and ``is_matched`` are
        # inlined for speed.
        return (
            name.startswith(".")
            or (name.startswith("_") and "=" not in name)
            or name.endswith(_MARKER)
            or (self._expression is not None and self._expression.match(name) is not None)
        )

    def is_matched(self, name: str) -> bool:
        """Return whether one of the table's globs matches the name."""
        return self._expression is not None and self._expression.match(name) is not None


def is_marker(name: str) -> bool:
    """Return whether a file of this name only marks a directory: S3N and EMR wrote such objects, and S3A hides them."""
    return name.endswith(_MARKER)


def parse_ignored_names(text: str) -> tuple[str, ...]:
    """Return the globs of a comma-separated list.

    Raises:
        ValueError: A glob is empty, too long, matches every name or has a slash.
    """
    globs = tuple(glob.strip() for glob in text.split(",")) if text.strip() else ()
    if any(not glob or "/" in glob or len(glob) > _MOST_LENGTH or _matches_all(glob) for glob in globs):
        raise ValueError("give globs of names with commas between them, such as README*,*.tmp, without '/' and not '*'")
    return globs


def _matches_all(glob: str) -> bool:
    """Return whether a glob such as ``*`` or ``?*`` matches all names of some length, so may hide all partitions."""
    return "*" in glob and not glob.strip("*?")


@lru_cache(maxsize=64)
def _parsed(text: str) -> IgnoredNames:
    return IgnoredNames(parse_ignored_names(text))
