"""The format of a table from the clauses of CREATE TABLE (in Spark's, Hive's or Doris' syntax) and of SET SERDE.

Settings of Hive's text formats become options of Spark's reader, as in an import.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog_ext.conf import table_keys
from catalog_ext.conf.properties import checked_map
from catalog_ext.metastore.errors import InvalidAlterationError, InvalidConfigurationError, InvalidInputError
from catalog_ext.metastore.hive.mapping.clauses import StorageClauses
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.hive_text import LAZY, LAZY_SETTINGS, is_hive_text, serde_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import Table, TableDefinition

_DELIMITED = frozenset({
    "field.delim", "serialization.format", "serialization.null.format", "line.delim", *LAZY_SETTINGS,
})  # fmt: skip
"""Settings of Hive's ``LazySimpleSerDe``; other formats ignore them, as in Hive."""
_QUOTED = {"separatorChar": "sep", "quoteChar": "quote", "escapeChar": "escape", "field.delim": "sep"}
"""The settings of Hive's ``OpenCSVSerde``, and the corresponding options of Spark's reader."""
_OF_TEXT = ("sep", "quote", "escape", "nullValue", *sorted(LAZY_SETTINGS))
_NO_CHANGE = frozenset({"serialization.format"})


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """The clauses of a statement that name its table's format.

    Attributes:
        using: The name after USING; None without that clause.
        clauses: Hive's clauses (STORED AS, ROW FORMAT).
        default: The format of a table without any clause.
    """

    using: str | None
    clauses: StorageClauses = field(default_factory=StorageClauses)
    default: str | None = None

    def of(self, definition: TableDefinition) -> TableDefinition:
        """Return the definition with the format and options that the clauses name, without the property for it.

        The definition's own format is ignored; its options may be the settings of ROW FORMAT.

        Raises:
            UnsupportedFormatError: Hive's clauses name no supported format.
            InvalidConfigurationError: Two clauses or properties name different formats.
            InvalidInputError: No clause names a format, and there is no default.
        """
        table, properties, options = str(definition.identifier), dict(definition.properties), definition.options
        key = table_keys.FILE_FORMAT.key
        found = [properties.pop(name) for name in definition.properties if name.lower() == key]
        property_format = found[0].strip().lower() if found else None
        said = None if self.using is None else self.using.lower()
        if said is None:
            by_clauses = self.clauses.named_format(table, options, properties)
            if by_clauses is not None:
                said, options = by_clauses.format, by_clauses.options
        if said is not None and property_format not in (None, said):
            raise InvalidConfigurationError(
                f"Table {table} has the format '{said}' and the property '{key}' = '{property_format}'. Say one of "
                "them.",
                {"table": table},
            )
        named = said or property_format or self.default
        if named is None:
            raise InvalidInputError(f"Nothing says the format of table {table}. Name one.", {"table": table})
        return replace(definition, format=named, options=options, properties=properties)


def with_serde(table: Table, serde: str | None, given: Mapping[str, str]) -> TableDefinition:
    """Return the table's definition with another SerDe class for the same files, or with other settings of the class.

    ``serde`` is the class that SET SERDE names, which must be able to read the files; None without that clause. The
    settings have Hive's names. Settings that are not of the format itself become reader options, except for text.

    Raises:
        UnsupportedFormatError: The class, or a setting, belongs to no supported format.
        InvalidAlterationError: The existing files could not be read with the new class or settings.
        InvalidConfigurationError: A setting is a secret.
    """
    definition, settings = table.definition, checked_map(given, "SERDEPROPERTIES of a table")
    named = str(definition.identifier)
    if serde is not None:
        found = StorageClauses(serde=serde).named_format(named, {}, definition.properties)
        kind = None if found is None else (found.format, _is_plain(found.options))
        if kind != (_kind(definition), _is_plain(definition.options)):
            raise InvalidAlterationError(
                f"The files of table {named} are {definition.format}, as {serde[:200]} does not read it. Make another "
                "table: CREATE TABLE … ROW FORMAT SERDE … AS SELECT.",
                {"table": named, "serde": serde[:200]},
            )
    if definition.format != "csv":
        own = {key: text for key, text in settings.items() if key not in _DELIMITED}
        return replace(definition, options={**definition.options, **own})
    options = _text_options(definition, settings)
    before, after = ({key: known.get(key) for key in _OF_TEXT} for known in (definition.options, options))
    if before != after and definition.partition_columns and table.totals.partitions:
        raise InvalidAlterationError(
            f"The partitions of table {named} keep the separators, quotes and words for NULL that they were written "
            "with, in Hive too, and would be read wrongly here. Make another table with these SERDEPROPERTIES, and "
            "INSERT … SELECT.",
            {"table": named},
        )
    return replace(definition, options=options)


def metastore_settings(definition: TableDefinition, given: Mapping[str, str]) -> dict[str, str]:
    """Return the SerDe settings of the metastore's table: the given ones, and those that follow from its options."""
    if definition.format != "csv":
        return dict(given)
    wanted = storage_of(definition.format, definition.options, definition.location).serde_parameters
    return {**given, **{key: text for key, text in wanted.items() if key in _DELIMITED}}


def _kind(definition: TableDefinition) -> str:
    # A text table has no SerDe class of its own in Hive, so it gets the settings that a CSV table has.
    return "csv" if definition.format == "text" else definition.format


def _is_plain(options: Mapping[str, str]) -> bool:
    """Return whether the options quote no values, so that Hive's ``LazySimpleSerDe`` can read the files."""
    return options.get("quote") == ""


def _text_options(definition: TableDefinition, settings: Mapping[str, str]) -> dict[str, str]:
    there, named = definition.options, str(definition.identifier)
    plain = _is_plain(there)
    known_names = _DELIMITED if plain else _QUOTED.keys() | _NO_CHANGE
    unknown = sorted(settings.keys() - known_names)
    if unknown:
        raise InvalidAlterationError(
            f"Table {named} knows no SERDEPROPERTIES {unknown[0][:60]!r}: its text has "
            f"{', '.join(sorted(known_names))}. TBLPROPERTIES take any name.",
            {"table": named, "property": unknown[0][:60]},
        )
    if not plain:
        return {**there, **{_QUOTED[key]: text for key, text in settings.items() if key in _QUOTED}}
    start = (
        serde_settings(there)
        if is_hive_text("csv", there)
        else {"field.delim": there.get("sep", ","), "serialization.null.format": there.get("nullValue", "")}
    )
    found = StorageClauses(serde=LAZY).named_format(named, {**start, **settings}, definition.properties)
    assert found is not None, "the class names a format"
    return {**there, **found.options}
