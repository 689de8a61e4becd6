"""The storage classes of each format, and the format of a metastore's table.

Tables of Spark's CSV get Hive's ``LazySimpleSerDe``, not ``OpenCSVSerde``, which makes every column a STRING.
``LazySimpleSerDe`` reads the same rows as Spark if fields are not quoted. A table that a Hive SerDe reads names the
SerDe among its options (``metastore.hive.mapping.hive_text``). JSON tables get HCatalog's ``JsonSerDe``, the only JSON
class that all of Hive's releases 2 to 4 have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.hive_text import (
    FOOTER_PARAMETER,
    HEADER_PARAMETER,
    LAZY,
    OPEN_CSV,
    hive_delimiter,
    is_hive_text,
    line_parameters,
    quoted_options,
    serde_settings,
    text_options,
)
from catalog_ext.metastore.hive.mapping.model import HiveStorage, HiveTable
from catalog_ext.metastore.model.separators import separator_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.types import DataType

_QL = "org.apache.hadoop.hive.ql.io"
_SERDE = "org.apache.hadoop.hive.serde2"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = f"{_QL}.HiveIgnoreKeyTextOutputFormat"
_JSON = "org.apache.hive.hcatalog.data.JsonSerDe"
_CLASSES = {
    "parquet": (
        f"{_QL}.parquet.MapredParquetInputFormat",
        f"{_QL}.parquet.MapredParquetOutputFormat",
        f"{_QL}.parquet.serde.ParquetHiveSerDe",
    ),
    "orc": (f"{_QL}.orc.OrcInputFormat", f"{_QL}.orc.OrcOutputFormat", f"{_QL}.orc.OrcSerde"),
    "csv": (_TEXT_INPUT, _TEXT_OUTPUT, LAZY),
    "json": (_TEXT_INPUT, _TEXT_OUTPUT, _JSON),
    "text": (_TEXT_INPUT, _TEXT_OUTPUT, LAZY),
}
INPUT_FORMATS = {name: _CLASSES[name][0] for name in ("parquet", "orc", "csv")}
"""The Java input class of each format that has a class of its own; the format ``text`` uses that of ``csv``."""

SERDE_FORMATS = {
    _CLASSES["parquet"][2]: "parquet", "parquet.hive.serde.ParquetHiveSerDe": "parquet", _CLASSES["orc"][2]: "orc",
    _JSON: "json", f"{_SERDE}.JsonSerDe": "json", "org.openx.data.jsonserde.JsonSerDe": "json",
}  # fmt: skip
_INPUT_CLASSES = {
    "parquet": frozenset({
        _CLASSES["parquet"][0], "parquet.hive.DeprecatedParquetInputFormat", "parquet.hive.MapredParquetInputFormat",
    }),
    "orc": frozenset({_CLASSES["orc"][0]}),
    "json": frozenset({_TEXT_INPUT}),
}  # fmt: skip
"""Input classes that read all files of a directory. Other classes read lists of files, or only the newest files."""
_NOT_TRUE = {"parquet": "parquet.column.index.access"}
"""A flag of each format's SerDe: if it is set, Hive reads other values than Spark."""
_OWN_SERDE_PARAMETERS = frozenset({
    "path", "serialization.format", "field.delim", "serialization.null.format", "serialization.encoding",
    "serialization.last.column.takes.rest",
})  # fmt: skip
_UNREADABLE_OPTIONS = {"multiline": "true", "wholetext": "true"}
_UNREADABLE_TYPES = {
    ("orc", "timestamp_ntz"): "Spark writes TIMESTAMP_NTZ into ORC as a whole number",
    ("json", "binary"): "its JSON reader has no BINARY",
}


@dataclass(frozen=True, slots=True)
class FormatFinding:
    """A table's format with the options for Spark's reader."""

    format: str
    options: Mapping[str, str]


def storage_of(data_format: str, options: Mapping[str, str], location: str) -> HiveStorage:
    """Return the storage classes and settings by which Hive engines and Spark's Hive catalog read the format.

    Args:
        data_format: One of ``catalog_ext.metastore.model.tables.FORMATS``.
        options: Spark's reader options; they are stored among the SerDe's settings, where Spark's own catalog stores
            them.
        location: The table's location; Spark's own catalog repeats it among the settings.
    """
    input_format, output_format, serde = _CLASSES[data_format]
    settings = dict(options) | {"path": location, "serialization.format": "1"}
    lower = {name.lower(): value for name, value in options.items()}
    if is_hive_text(data_format, options):
        return HiveStorage(input_format, output_format, options["serde"], serde_settings(options))
    if data_format == "csv":
        delimiter = _delimiter(lower)
        # Hive reads a delimiter that is a digit as a character code, so write the code of the digit.
        delimiter = str(ord(delimiter)) if len(delimiter) == 1 and delimiter.isdecimal() else delimiter
        settings |= {
            "field.delim": delimiter,
            "serialization.format": delimiter,
            "serialization.null.format": lower.get("nullvalue", ""),
        }
    if data_format == "text":
        settings["serialization.last.column.takes.rest"] = "true"
    encoding = lower.get("encoding", lower.get("charset"))
    if encoding is not None and data_format in ("csv", "text"):
        settings["serialization.encoding"] = encoding
    return HiveStorage(input_format, output_format, serde, settings)


def unreadable_option(data_format: str, options: Mapping[str, str]) -> str | None:
    """Return why Hive engines would read other rows than Spark with these options; None if they would not."""
    if is_hive_text(data_format, options):
        return None
    lower = {name.lower(): value for name, value in options.items()}
    for name, value in _UNREADABLE_OPTIONS.items():
        if lower.get(name, "").lower() == value:
            return f"the option {name}={value}"
    if data_format == "csv" and len(_delimiter(lower)) != 1:
        return f"the delimiter {_delimiter(lower)!r} of several characters"
    if data_format == "csv" and not _delimiter(lower).isascii():
        return f"the delimiter {_delimiter(lower)!r}, which is several bytes"
    return "the option lineSep" if lower.get("linesep", "\n") not in ("\n", "\r\n") else None


def unreadable_setting(data_format: str, settings: Mapping[str, str]) -> str | None:
    """Return the SerDe setting by which Hive engines read other values than Spark does; None without such a setting."""
    flag = _NOT_TRUE.get(data_format, "")
    if settings.get(flag, "").lower() == "true":
        return f"the setting {flag}='true'"
    if data_format == "json":
        renamed = min((name for name in settings if name.startswith("mapping.")), default=None)
        return None if renamed is None else f"the setting {renamed}={settings[renamed]!r}"
    if data_format != "csv":
        return None
    delimiter = settings.get("field.delim", "")
    if delimiter and not hive_delimiter(delimiter).isascii():
        return f"the setting field.delim={delimiter!r}"
    line = settings.get("line.delim", "\n")
    return None if line in ("\n", "10") else f"the setting line.delim={line!r}"


def unreadable_type(data_format: str, data_type: DataType) -> str | None:
    """Return why Hive engines could not read a column of this type that Spark wrote in the format; None if they can."""
    inner = (*data_type.children, *(field.type for field in data_type.fields))
    found = _UNREADABLE_TYPES.get((data_format, data_type.name))
    return found or next(filter(None, (unreadable_type(data_format, child) for child in inner)), None)


def unreadable_table(table: HiveTable, data_format: str) -> str | None:
    """Return why Hive engines read other rows of a table than Spark would; None if both read the same rows."""
    setting = unreadable_setting(data_format, {**table.parameters, **table.storage.serde_parameters})
    if setting is not None:
        return f"its SerDe has {setting}, which is not followed"
    lines = [] if data_format == "csv" else [HEADER_PARAMETER, FOOTER_PARAMETER]
    encoding = table.storage.serde_parameters.get("serialization.encoding", "UTF-8")
    if table.storage.serde == OPEN_CSV and encoding.lower().replace("-", "") != "utf8":
        return (
            f"its SerDe has serialization.encoding={encoding!r}, which OpenCSVSerde of Hive 4 follows and that of "
            "Hive 2.3 does not"
        )
    skipped = next((name for name in lines if table.parameters.get(name, "0") != "0"), None)
    if skipped is not None:
        count = table.parameters[skipped]
        return f"Hive leaves out {count} rows of each of its files ({skipped}), which is not done for {data_format}"
    return None


def table_parameters(data_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the table parameters that the reader options require, such as the number of header lines to skip."""
    if is_hive_text(data_format, options):
        return line_parameters(options)
    header = {name.lower(): value for name, value in options.items()}.get("header", "false")
    return {HEADER_PARAMETER: "1"} if data_format == "csv" and header.lower() == "true" else {}


def reader_options(serde_parameters: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's reader options among the SerDe's settings of a table that Spark or this project created."""
    return {name: value for name, value in serde_parameters.items() if name not in _OWN_SERDE_PARAMETERS}


def hive_format(table: HiveTable) -> FormatFinding:
    """Return the format of a table that a Hive engine created, and the options with which Spark reads the same rows.

    Raises:
        UnsupportedFormatError: The table's storage classes belong to no supported format.
    """
    storage = table.storage
    found = SERDE_FORMATS.get(storage.serde)
    if found is not None and storage.input_format in _INPUT_CLASSES[found]:
        return FormatFinding(found, {})
    if storage.serde in (LAZY, OPEN_CSV) and storage.input_format == _TEXT_INPUT:
        options = text_options if storage.serde == LAZY else quoted_options
        try:
            return FormatFinding("csv", options({**table.parameters, **storage.serde_parameters}))
        except ValueError as error:
            raise _unsupported(table, str(error)) from error
    raise _unsupported(table, f"its storage is {storage.serde or 'none'} over {storage.input_format or 'none'}")


def _delimiter(lower: Mapping[str, str]) -> str:
    text = lower.get("sep", lower.get("delimiter", ","))
    return "\x01" if text == "\\u0001" else separator_of(text)


def _unsupported(table: HiveTable, why: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"The metastore's table {table} cannot be imported: {why}. "
        "Tables of Parquet, ORC, delimited text, JSON lines and plain text can.",
        {"table": str(table)},
    )
