"""Patterns of tables: a database, or some of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog_ext.metastore.errors import InvalidInputError


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
