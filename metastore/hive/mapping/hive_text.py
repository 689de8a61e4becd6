"""Text that a Hive SerDe reads and writes, as options of a table of the format ``csv``.

The option ``serde`` names the class with which the connector reads and writes the table. Settings that Spark's reader
has too are under Spark's names (``sep``, ``nullValue``, ``header``, ``quote``, ``escape``), others under Hive's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
SERDE = "serde"
HEADER_PARAMETER = "skip.header.line.count"
FOOTER_PARAMETER = "skip.footer.line.count"
LAZY_SETTINGS = frozenset({
    "escape.delim", "colelction.delim", "mapkey.delim", "timestamp.formats", "serialization.encoding",
    "serialization.escape.crlf", "serialization.last.column.takes.rest", "hive.serialization.extend.nesting.levels",
    "hive.serialization.extend.additional.nesting.levels",
})  # fmt: skip
"""Settings of ``LazySimpleSerDe`` that Spark's reader does not have; the typing error is Hive's."""

_LINES = (HEADER_PARAMETER, FOOTER_PARAMETER)
_QUOTED = {"sep": ("separatorChar", ","), "quote": ("quoteChar", '"'), "escape": ("escapeChar", "\\")}
_NAMES = {
    name.lower(): name for name in (SERDE, "sep", "quote", "escape", "nullValue", "header", *LAZY_SETTINGS, *_LINES)
}
_FIRST_DELIMITER = "\x01"
_HIVE_NULL = "\\N"


def is_hive_text(data_format: str, options: Mapping[str, str]) -> bool:
    """Return whether a SerDe of Hive reads the files of a table with these options."""
    return data_format == "csv" and SERDE in options


def named_alike(data_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the user's table options under the names that this module uses.

    Spark and the connector accept option names in any case. Options of tables without a SerDe stay unchanged.
    """
    if data_format != "csv" or SERDE not in {name.lower() for name in options}:
        return dict(options)
    return {_NAMES.get(name.lower(), name): value for name, value in options.items()}


def text_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table of ``LazySimpleSerDe``.

    Args:
        settings: Those of the SerDe, with the table's parameters.

    Raises:
        ValueError: A number of lines to skip is no number; the message says why the table cannot be read.
    """
    delimiter = hive_delimiter(settings.get("field.delim", settings.get("serialization.format", "1")))
    return {
        # Spark reads a backslash as the first half of an escape.
        "sep": "\\\\" if delimiter == "\\" else delimiter,
        "quote": "",
        "nullValue": settings.get("serialization.null.format", _HIVE_NULL),
        SERDE: LAZY,
        **{name: settings[name] for name in sorted(LAZY_SETTINGS & settings.keys())},
        **_line_options(settings),
    }


def quoted_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table of ``OpenCSVSerde``.

    Args:
        settings: Those of the SerDe, with the table's parameters.

    Raises:
        ValueError: A setting is empty, which Hive cannot read either, or a number of lines to skip is no number.
    """
    options = {}
    for option, (name, default) in _QUOTED.items():
        text = settings.get(name, default)
        if not text:
            raise ValueError(f"its {name} is empty, with which Hive cannot read it either")
        options[option] = text[0]
    return {**options, SERDE: OPEN_CSV, **_line_options(settings)}


def serde_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the SerDe that the options name."""
    if options[SERDE] == OPEN_CSV:
        return {name: options.get(option, default) for option, (name, default) in _QUOTED.items()}
    separator = options.get("sep", _FIRST_DELIMITER)
    delimiter = "\\" if separator == "\\\\" else separator
    # A digit is to Hive the number of a character.
    delimiter = str(ord(delimiter)) if delimiter.isdecimal() else delimiter
    kept = {name: options[name] for name in sorted(LAZY_SETTINGS & options.keys())}
    return {
        "field.delim": delimiter,
        "serialization.format": delimiter,
        "serialization.null.format": options.get("nullValue", _HIVE_NULL),
        **kept,
    }


def line_parameters(options: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the table by which Hive skips lines."""
    header = {HEADER_PARAMETER: "1"} if options.get("header", "").lower() == "true" else {}
    return header | {name: options[name] for name in _LINES if name in options}


def hive_delimiter(text: str) -> str:
    """Return the one character that Hive takes a delimiter's setting for: its number, or the first of several."""
    with suppress(ValueError):
        if -128 <= (number := int(text)) < 128:
            return chr(number % 256)
    return text[:1] or _FIRST_DELIMITER


def _line_options(settings: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name in _LINES:
        text = settings.get(name, "0")
        if not text.isdecimal():
            raise ValueError(f"the number of lines to skip, {name}={text[:20]!r}, is no number")
        if int(text) > 0:
            found[name] = text
    if found.get(HEADER_PARAMETER) == "1":
        del found[HEADER_PARAMETER]
        found["header"] = "true"
    return found
