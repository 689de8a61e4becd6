"""Finds the format that a CREATE TABLE names, in Spark's words, in Hive's or in Doris'."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog_ext.conf import table_keys
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError
from catalog_ext.metastore.hive.mapping.clauses import StorageClauses

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """What a statement says of its table's format, besides properties and options.

    Attributes:
        using: What USING names; None without that clause.
        clauses: Hive's clauses.
        default: The format of a table of which nothing is said.
    """

    using: str | None
    clauses: StorageClauses = field(default_factory=StorageClauses)
    default: str | None = None

    def of(self, definition: TableDefinition) -> TableDefinition:
        """Return the definition with the format and its options, and without the property that named it.

        Args:
            definition: Its format is not looked at; its options may be the settings of ROW FORMAT.

        Raises:
            UnsupportedFormatError: Hive's clauses name none that is supported.
            InvalidConfigurationError: It is named twice, in different ways.
            InvalidInputError: Nothing names one.
        """
        table, properties, options = str(definition.identifier), dict(definition.properties), definition.options
        key = table_keys.FILE_FORMAT.key
        found = [properties.pop(name) for name in definition.properties if name.lower() == key]
        of_property = found[0].strip().lower() if found else None
        said = None if self.using is None else self.using.lower()
        if said is None:
            by_clauses = self.clauses.named_format(table, options, properties)
            if by_clauses is not None:
                said, options = by_clauses.format, by_clauses.options
        if said is not None and of_property not in (None, said):
            raise InvalidConfigurationError(
                f"Table {table} has the format '{said}' and the property '{key}' = '{of_property}'. Say one of them.",
                {"table": table},
            )
        named = said or of_property or self.default
        if named is None:
            raise InvalidInputError(f"Nothing says the format of table {table}. Name one.", {"table": table})
        return replace(definition, format=named, options=options, properties=properties)
