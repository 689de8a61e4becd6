"""Text tables that a Hive SerDe reads and writes, expressed as options of a table of the format ``csv``.

The option ``serde`` names the class with which the connector reads and writes the table. Settings that Spark's CSV
reader also has use Spark's names (``sep``, ``nullValue``, ``header``, ``quote``, ``escape``), other settings use
Hive's.
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
    """Return whether a Hive SerDe reads the files of a table with these options."""
    return data_format == "csv" and SERDE in options


def named_alike(data_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the user's table options with option names in the spelling that this module uses.

    Spark and the connector accept option names in any case. Options of tables without a SerDe stay unchanged.
    """
    if data_format != "csv" or SERDE not in {name.lower() for name in options}:
        return dict(options)
    return {_NAMES.get(name.lower(), name): value for name, value in options.items()}


def text_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table of ``LazySimpleSerDe``.

    Args:
        settings: The SerDe's settings, with the table's parameters.

    Raises:
        ValueError: A number of lines to skip is not a number; the message says why the table cannot be read.
    """
    delimiter = hive_delimiter(settings.get("field.delim", settings.get("serialization.format", "1")))
    return {
        # Spark reads a single backslash as the start of an escape sequence, so a backslash delimiter is doubled.
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
        settings: The SerDe's settings, with the table's parameters.

    Raises:
        ValueError: A setting is empty, which Hive cannot read either, or a number of lines to skip is not a number.
    """
    options = {}
    for option, (name, default) in _QUOTED.items():
        text = settings.get(name, default)
        if not text:
            raise ValueError(f"its {name} is empty, with which Hive cannot read it either")
        options[option] = text[0]
    return {**options, SERDE: OPEN_CSV, **_line_options(settings)}


def serde_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the SerDe that is named among the options."""
    if options[SERDE] == OPEN_CSV:
        return {name: options.get(option, default) for option, (name, default) in _QUOTED.items()}
    delimiter = _separator(options.get("sep", ""))
    # Hive reads a delimiter that is a digit as a character code, so write the code of the digit.
    delimiter = str(ord(delimiter)) if delimiter.isdecimal() else delimiter
    kept = {name: options[name] for name in sorted(LAZY_SETTINGS & options.keys())}
    return {
        "field.delim": delimiter,
        "serialization.format": delimiter,
        "serialization.null.format": options.get("nullValue", _HIVE_NULL),
        **kept,
    }


def _separator(text: str) -> str:
    """Return the character that the connector's reader, too, takes from the option ``sep`` of ``LazySimpleSerDe``."""
    return {"\\\\": "\\", "\\t": "\t"}.get(text, text[:1]) or _FIRST_DELIMITER


def line_parameters(options: Mapping[str, str]) -> dict[str, str]:
    """Return the table parameters by which Hive skips header and footer lines."""
    header = {HEADER_PARAMETER: "1"} if options.get("header", "").lower() == "true" else {}
    return header | {name: options[name] for name in _LINES if name in options}


def hive_delimiter(text: str) -> str:
    """Return the character that Hive uses for a delimiter setting: that of a character code, or the first character."""
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
