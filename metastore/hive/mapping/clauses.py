"""Translates the format clauses of Hive's CREATE TABLE (STORED AS, ROW FORMAT) to a format and options, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import OperationNotSupportedError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.formats import INPUT_FORMATS, SERDE_FORMATS, FormatFinding
from catalog_ext.metastore.hive.mapping.hive_text import (
    FOOTER_PARAMETER,
    HEADER_PARAMETER,
    LAZY,
    OPEN_CSV,
    SERDE,
    is_hive_text,
    quoted_options,
    serde_settings,
    text_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DELIMITED = frozenset({
    "field.delim", "escape.delim", "line.delim", "colelction.delim", "mapkey.delim", "serialization.null.format",
    "serialization.format",
})  # fmt: skip
"""Settings of ROW FORMAT DELIMITED; the typing error ``colelction`` is Hive's."""


def _word(name: str) -> str:
    """Return the last part of a class's name, or a format's name, in lower case."""
    return name.rpartition(".")[2].lower()


_TEXT, _QUOTED = _word(LAZY), _word(OPEN_CSV)
_FORMATS = {
    "parquet": "parquet",
    "orc": "orc",
    "jsonfile": "json",
    "textfile": _TEXT,
    _TEXT: _TEXT,
    _QUOTED: _QUOTED,
    **{_word(name): found for name, found in SERDE_FORMATS.items()},
    **{_word(name): _TEXT if found == "csv" else found for found, name in INPUT_FORMATS.items()},
}


@dataclass(frozen=True, slots=True)
class StorageClauses:
    """The format names in a statement's clauses; None for a missing clause."""

    stored_as: str | None = None
    serde: str | None = None
    input_format: str | None = None
    output_format: str | None = None

    def named_format(
        self, table: str, settings: Mapping[str, str], parameters: Mapping[str, str]
    ) -> FormatFinding | None:
        """Return the format in the clauses, and the reader options with which Spark reads the same rows as Hive.

        Args:
            table: The table, for messages.
            settings: The settings of ROW FORMAT; delimiters alone mean delimited text.
            parameters: The table's parameters.

        Returns:
            None if no clause names a format.

        Raises:
            UnsupportedFormatError: The format or its settings are not supported.
        """
        format_name = self.serde or self.stored_as or self.input_format
        if format_name is None and _DELIMITED.isdisjoint(settings):
            return None
        found = _FORMATS.get("textfile" if format_name is None else _word(format_name))
        if found is None:
            raise UnsupportedFormatError(
                f"Table {table} cannot be stored as '{format_name}'. Use PARQUET, ORC, TEXTFILE or JSONFILE, or USING "
                "csv, json or text.",
                {"table": table, "format": str(format_name)},
            )
        if found not in (_TEXT, _QUOTED):
            return FormatFinding(found, {key: text for key, text in settings.items() if key not in _DELIMITED})
        _check_lines(table, settings)
        lines = {name: parameters[name] for name in (HEADER_PARAMETER, FOOTER_PARAMETER) if name in parameters}
        try:
            options = (text_options if found == _TEXT else quoted_options)({**lines, **settings})
        except ValueError as error:
            raise UnsupportedFormatError(
                f"Table {table} cannot be stored so: {error}. Correct the setting.", {"table": table}
            ) from error
        return FormatFinding("csv", options)


def hive_clauses(table: str, data_format: str, options: Mapping[str, str]) -> tuple[StorageClauses, dict[str, str]]:
    """Return the clauses of CREATE TABLE, and the settings of ROW FORMAT, for a format with these reader options.

    Raises:
        OperationNotSupportedError: Hive has no clause for the format or for one of its options.
    """
    if data_format in ("parquet", "orc"):
        return StorageClauses(stored_as=data_format.upper()), {}
    if data_format == "json":
        return StorageClauses(stored_as="JSONFILE"), {}
    if is_hive_text(data_format, options):
        return StorageClauses(stored_as="TEXTFILE", serde=options[SERDE]), serde_settings(options)
    if data_format == "csv" and options.get("quote") == "":
        # Name the SerDe instead of writing ROW FORMAT DELIMITED: Spark's parser ignores the clause NULL DEFINED AS in
        # ROW FORMAT DELIMITED.
        settings = {"field.delim": options.get("sep", ","), "serialization.null.format": options.get("nullValue", "")}
        return StorageClauses(stored_as="TEXTFILE", serde=LAZY), settings
    raise OperationNotSupportedError(
        f"SHOW CREATE TABLE {table} AS SERDE: Hive has no clause for the format {data_format} with the table's "
        "options. Leave out AS SERDE.",
        {"table": table, "format": data_format},
    )


def _check_lines(table: str, settings: Mapping[str, str]) -> None:
    if settings.get("line.delim", "\n") not in ("\n", "10"):
        raise UnsupportedFormatError(
            f"Table {table} cannot have LINES TERMINATED BY another character than '\\n', as in Hive itself.",
            {"table": table},
        )
