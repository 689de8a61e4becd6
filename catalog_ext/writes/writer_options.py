"""Options of Spark's writers: a new table stores them, and an existing table refuses contradicting ones.

A file is read with its table's options. So an option that affects how the bytes of a file are read must be the table's:
a write that creates a table gives it to the table, and any other write may only repeat the table's value. Names,
aliases and defaults are those of Spark's ``CSVOptions``, ``JSONOptions`` and ``TextOptions``. Parquet and ORC files
describe themselves.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.conf.format_options import OF_FORMAT
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.model.secrets import drop_secrets
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_LONGEST_VALUE = 60
_SYNONYMS = {"csv": (("compression", "codec"),)}
"""By format, alternative names of an option that affects only how files are written, not how they are read."""
_ZONE = "timeZone"
"""An option of every format: the time zone of TIMESTAMP keys, and of texts of times that name no zone."""
_STREAM = "STREAMING"


def _plain(text: str) -> str:
    return text


def _flag(text: str) -> str:
    return text.strip().lower()


def _charset(text: str) -> str:
    try:
        return codecs.lookup(text).name
    except LookupError:
        return text.lower()


def _separator(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\u0001", "\x01").replace("\\0", "\0")


def _character(text: str) -> str:
    """Return the character; Spark treats an empty text as NUL, which means that there is no such character."""
    return "" if text == "\0" else text


@dataclass(frozen=True, slots=True)
class _Decisive:
    """An option that affects how a file is read: a file written with another value is misread.

    Attributes:
        names: The option's name and its aliases; the first that is set counts.
        default: The value of files that were written without the option; None if Spark has no default.
        known: Normalizes a value, so that different spellings of a value are equal.
        accepted: Values that a table without the option reads correctly.
    """

    names: tuple[str, ...]
    default: str | None
    known: Callable[[str], str] = _plain
    accepted: tuple[str, ...] = ()

    def given(self, options: Mapping[str, str]) -> str | None:
        """Return this option's value in ``options`` (names in lower case), also by an alias; None if it is not set."""
        return next((options[name.lower()] for name in self.names if name.lower() in options), None)

    def contradicts(self, written: str, table: str | None) -> bool:
        """Return whether a table with the value ``table`` (None: no value) misreads a file written with ``written``."""
        expected = self.default if table is None else table
        accepted = [*([] if expected is None else [expected]), *(self.accepted if table is None else ())]
        return self.known(written) not in {self.known(value) for value in accepted}


_ENCODING = _Decisive(("encoding", "charset"), "UTF-8", _charset)
_LINES = _Decisive(("lineSep",), None, accepted=("\n", "\r\n", "\r"))
_MANY_LINES = _Decisive(("multiLine",), "false", _flag)
_VALUES = (
    _Decisive(("dateFormat",), "yyyy-MM-dd"),
    _Decisive(("timestampFormat",), "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"),
    _Decisive(("timestampNTZFormat",), "yyyy-MM-dd'T'HH:mm:ss[.SSS]"),
    _Decisive(("timeFormat",), "HH:mm:ss"),
    _Decisive(("locale",), "en-US"),
)
_DECISIVE: dict[str, tuple[_Decisive, ...]] = {
    "csv": (
        _Decisive(("sep", "delimiter"), ",", _separator),
        _Decisive(("header",), "false", _flag),
        _Decisive(("quote",), '"', _character),
        _Decisive(("escape",), "\\", _character),
        _Decisive(("charToEscapeQuoteEscaping",), None, accepted=("",)),
        _Decisive(("comment",), "", _character),
        _Decisive(("nullValue",), ""),
        _Decisive(("emptyValue",), '""'),
        _ENCODING,
        _LINES,
        _MANY_LINES,
        *_VALUES,
    ),
    "json": (_ENCODING, _LINES, _MANY_LINES, *_VALUES),
    "text": (_ENCODING, _LINES, _Decisive(("wholetext",), "false", _flag)),
}
"""These options by format, in the order in which an error names them."""


def options_of_new_table(definition: TableDefinition, written: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table that a write creates: the write's, and those of the definition for the rest.

    The table gets the options that Spark's reader or writer of its format knows. Options of the write alone (``path``,
    ``maxRecordsPerFile``, ``partitionOverwriteMode``, settings of catalog-ext, names unknown to the format, secrets)
    are omitted.
    """
    file_format = definition.format.lower()
    names = {name.lower(): name for name in (*OF_FORMAT.get(file_format, ()), _ZONE)}
    own = {
        names.get(key.lower(), key): value
        for key, value in drop_secrets(written).items()
        if key.lower() in names or key.lower().startswith(f"{file_format}.")
    }
    replaced = {alias for key in own for alias in _aliases(file_format, key)}
    return {key: value for key, value in definition.options.items() if key.lower() not in replaced} | own


def check_options_of_write(definition: TableDefinition, written: Mapping[str, str]) -> None:
    """Check that the readers of an existing table can read files written with these options.

    Raises:
        InvalidConfigurationError: An option differs from the table's, and files written with it would be misread.
    """
    own, given = _lower(definition.options), _lower(written)
    zone = () if _ZONE.lower() not in own else (_Decisive((_ZONE,), None),)
    for option in (*_DECISIVE.get(definition.format, ()), *zone):
        value, table = option.given(given), option.given(own)
        if value is not None and option.contradicts(value, table):
            raise _contradiction(definition, option, given, table)
    check_lines_of_rows(definition, written)


def check_lines_of_rows(definition: TableDefinition, written: Mapping[str, str]) -> None:
    """Check that JSON is written with one row per line: JSON tables can be read in no other form.

    Raises:
        InvalidConfigurationError: The option ``pretty`` is on.
    """
    options = _lower(definition.options) | _lower(written)
    if definition.format == "json" and _flag(options.get("pretty", "")) == "true":
        raise InvalidConfigurationError(
            f"Table {definition.identifier} cannot be written with the option 'pretty' = 'true': Spark then spreads a "
            "row over several lines, and reads from such a file no row, or with multiLine the first one alone. Leave "
            "the option out.",
            {"key": "pretty", "table": str(definition.identifier)},
        )


def _contradiction(
    definition: TableDefinition, option: _Decisive, given: Mapping[str, str], table: str | None
) -> InvalidConfigurationError:
    name = next(name for name in option.names if name.lower() in given)
    table_value = (
        f"{table[:_LONGEST_VALUE]!r}" if table is not None else f"not set, which means {_words(option.default)}"
    )
    value = given[name.lower()][:_LONGEST_VALUE]
    return InvalidConfigurationError(
        f"The write to table {definition.identifier} has the option {name!r} = {value!r}, and the table's is "
        f"{table_value}. Files are read by the table's options, so that these rows would be misread. Leave the option "
        "out of the write; or make the table with it: CREATE TABLE … OPTIONS, or the writer that creates or replaces "
        "the table.",
        {"key": name, "table": str(definition.identifier)},
    )


def _words(default: str | None) -> str:
    return "Spark's default" if default is None else repr(default)


def _aliases(file_format: str, key: str) -> Iterable[str]:
    groups = [*(option.names for option in _DECISIVE.get(file_format, ())), *_SYNONYMS.get(file_format, ())]
    return {name.lower() for group in groups if key in group for name in group} | {key.lower()}


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


def table_of_stream(context: Context, table: Table, operation: str, written: Mapping[str, str]) -> Table | None:
    """Store a stream's options in a table that no write has filled yet; return the table, None if nothing changes.

    Options that the table has already stay, and the stream must not contradict them. ``operation``, the word for the
    history, says whether the writer is a stream.

    Raises:
        ConflictError: Another write to the table is under way.
    """
    if operation != _STREAM or table.totals.files or table.definition.table_type is not TableType.MANAGED:
        return None

    def change(definition: TableDefinition) -> TableDefinition:
        return replace(definition, options=options_of_new_table(definition, written) | dict(definition.options))

    if change(table.definition).options == table.definition.options or context.index.tables.had_files(table.table_id):
        return None
    altered = context.index.alterations.alter(
        table.identifier,
        change,
        settings=lambda new: storage_of(new.format, new.options, new.location).serde_parameters,
        deliver=context.metastore.accepts(table.definition),
    )
    context.sync.publish(altered.table_id)
    return altered
