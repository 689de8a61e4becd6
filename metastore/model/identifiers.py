"""Checks and parses names of namespaces, tables and columns, and patterns for several tables."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog_ext.metastore.errors import InvalidIdentifierError, InvalidInputError, TableNotFoundError

MAX_IDENTIFIER_LENGTH = 128
"""The longest name that the Hive Metastore can store (``TBLS.TBL_NAME`` of its schema 2.3 to 4)."""

_FURTHER = frozenset("- ")


def validate_identifier(name: str, kind: str) -> str:
    """Return the name in lower case, as the Hive Metastore stores it.

    ``kind`` is the kind of the named object in the message (``table``, ``namespace``).

    Raises:
        InvalidIdentifierError: The name is empty, too long, or has a character that is not allowed: letters are, and
            after the first one also digits, ``_``, ``-`` and blanks.
    """
    value = name if len(name) <= MAX_IDENTIFIER_LENGTH else f"{name[:40]}… ({len(name)} characters)"
    if not name or len(name) > MAX_IDENTIFIER_LENGTH or not _is_valid(name):
        raise InvalidIdentifierError(
            f"{value!r} is not a valid {kind} name. Use 1 to {MAX_IDENTIFIER_LENGTH} letters, digits, '_' or '-', "
            "starting with a letter, a digit or '_'.",
            {kind: value},
        )
    return name.lower()


def _is_valid(name: str) -> bool:
    # The connector's class SessionNames applies the same rule, with the same Unicode categories; change both together.
    return _is_letter(name[0]) and all(_is_letter(character) or character in _FURTHER for character in name)


def _is_letter(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def validate_column_name(name: str) -> str:
    """Return the column name unchanged.

    Raises:
        InvalidIdentifierError: The name is empty, longer than the metastore's 767 characters, or has a control
            character, a comma, a colon or a slash (the metastore and directory names cannot contain these).
    """
    if not name or len(name) > 767 or any(c in ",:;/\\" or ord(c) < 32 or ord(c) == 127 for c in name):
        value = name if len(name) <= 60 else f"{name[:40]}… ({len(name)} characters)"
        raise InvalidIdentifierError(
            f"{value!r} is not a valid column name. Use 1 to 767 characters, none of them ',', ':', ';', '/', '\\' or "
            "a control character.",
            {"column": value},
        )
    return name


@dataclass(frozen=True, slots=True, order=True)
class TableIdentifier:
    """The name of a table and of its namespace, which has one level as in the Hive Metastore."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @classmethod
    def of(cls, namespace: str, name: str) -> TableIdentifier:
        """Return the identifier with both parts checked and in lower case.

        Raises:
            InvalidIdentifierError: A part is not a valid name.
        """
        return cls(validate_identifier(namespace, "namespace"), validate_identifier(name, "table"))

    @classmethod
    def parse(cls, text: str, catalog: str | None = None) -> TableIdentifier:
        """Parse ``namespace.table`` or ``catalog.namespace.table``.

        Parts may be quoted in backticks. ``catalog`` is the only catalog name that is accepted in front; None accepts
        any.

        Raises:
            InvalidIdentifierError: The text does not have two or three parts, a part is not a valid name, or the
                catalog is a different one.
        """
        parts = [
            quoted.replace("``", "`") if quoted else plain
            for quoted, plain in re.findall(r"(?:^|(?<=\.))(?:`((?:[^`]|``)*)`|([^`.]*))(?=\.|$)", text)
        ]
        if len(parts) == 3 and (catalog is None or parts[0].lower() == catalog.lower()):
            parts = parts[1:]
        if len(parts) != 2:
            value = text if len(text) <= 200 else f"{text[:80]}… ({len(text)} characters)"
            form = "namespace.table" + (f" or {catalog}.namespace.table" if catalog else "")
            raise InvalidIdentifierError(f"{value!r} does not name a table. Write {form}.", {"table": value})
        return cls.of(parts[0], parts[1])


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A pattern for tables with ``*`` (any characters) and ``?`` (one character), ignoring case.

    Attributes:
        namespaces: Matches the names of databases.
        tables: Matches the names of tables in these databases.
    """

    namespaces: str = "*"
    tables: str = "*"

    @classmethod
    def parse(cls, text: str, catalog: str) -> TablePattern:
        """Parse a pattern: ``sales`` (all of its tables) or ``sales.fact_*``, with or without the catalog in front.

        Raises:
            InvalidInputError: The text is not a pattern of this form.
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
        """Return whether the pattern matches the database's name, so that tables in it may match."""
        return fnmatchcase(name.lower(), self.namespaces)

    def has_table(self, name: str) -> bool:
        """Return whether the pattern matches the table's name, for a table in a matching database."""
        return fnmatchcase(name.lower(), self.tables)

    def matches(self, namespace: str, name: str) -> bool:
        """Return whether the pattern matches the database and the table."""
        return self.has_namespace(namespace) and self.has_table(name)


def is_pattern(text: str) -> bool:
    """Return whether the text may name several tables: a database, or a name with ``*`` or ``?``."""
    return "." not in text or any(c in text for c in "*?")


def no_table_matches(pattern: str, subject: str) -> TableNotFoundError:
    """Return the error for a pattern that matches no table, with a hint if it may be misspelled.

    ``subject`` begins the sentence: ``The index has no table``.
    """
    return TableNotFoundError(f"{subject} that matches {pattern[:120]!r}.", {"pattern": pattern[:120]})
