"""Patterns of tables: a database, or some of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog_ext.metastore.errors import InvalidInputError, TableNotFoundError


@dataclass(frozen=True, slots=True)
class TablePattern:
    """Names with ``*`` (any characters) and ``?`` (one), without regard to case.

    Attributes:
        namespaces: Matches databases.
        tables: Matches tables in them.
    """

    namespaces: str = "*"
    tables: str = "*"

    @classmethod
    def parse(cls, text: str, catalog: str) -> TablePattern:
        """Return the pattern: ``sales`` (all of its tables), ``sales.fact_*``, with or without the catalog in front.

        Raises:
            InvalidInputError: It is none.
        """
        parts = text.strip().lower().split(".")
        if len(parts) == 3 and parts[0] == catalog.lower():
            parts = parts[1:]
        if not all(parts) or len(parts) > 2:
            raise InvalidInputError(
                f"{text[:120]!r} is no pattern of tables. Give a database (sales), or tables of one with * and ? "
                "(sales.fact_*)."
            )
        return cls(*parts)

    def has_namespace(self, name: str) -> bool:
        """Return whether tables of a database may match."""
        return fnmatchcase(name.lower(), self.namespaces)

    def has_table(self, name: str) -> bool:
        """Return whether a table matches, in a database that does."""
        return fnmatchcase(name.lower(), self.tables)

    def matches(self, namespace: str, name: str) -> bool:
        """Return whether a table of a database matches."""
        return self.has_namespace(namespace) and self.has_table(name)


def is_pattern(text: str) -> bool:
    """Return whether the text is meant for more than one table: a database, or a name with ``*`` or ``?``."""
    return "." not in text or any(c in text for c in "*?")


def no_table_matches(text: str, who: str) -> TableNotFoundError:
    """Return the error of a pattern to which there is nothing, which may be misspelled.

    Args:
        text: The pattern.
        who: Begins the sentence: ``The index has no table``.
    """
    return TableNotFoundError(f"{who} that matches {text[:120]!r}.", {"pattern": text[:120]})
