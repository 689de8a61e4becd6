"""Compares the definition of a table in the index with the metastore's, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import MISSING, Difference, DriftKind, changed_in_metastore
from catalog_ext.metastore.errors import UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.conversion import (
    column_key,
    columns_of,
    from_hive,
    to_hive,
    user_parameters,
)
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.statistics_parameters import without_sparks_statistics
from catalog_ext.metastore.model.secrets import drop_secrets
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import Column, TableDefinition

_SET_BY_SERVERS = frozenset({"TRANSLATED_TO_EXTERNAL", "external.table.purge"})
"""Parameters that metastore servers of release 4 add by themselves."""

ORDER = "(order)"
"""The subject of a difference in the order of columns."""

COMMENT = "(comment)"
"""The subject of a difference in the table's comment, which is stored as a parameter but not set as one."""


class DefinitionComparison:
    """The definitions of one table in the index and the metastore.

    Args:
        definition: The index's definition, which the metastore can store.
        found: The metastore's table of the same name.
    """

    def __init__(self, definition: TableDefinition, found: HiveTable) -> None:
        self._definition = definition
        self._found = found
        self._evidence = str(changed_in_metastore(found.parameters) or "")

    @property
    def is_elsewhere(self) -> bool:
        """Whether the metastore's table has another location than the index's, so that it may be a different table."""
        return not same_location(self._found.location, self._definition.location)

    @property
    def has_other_keys(self) -> bool:
        """Whether the names of the partition columns differ, so that no partition can be compared."""
        return [c.name for c in self._found.partition_columns] != [
            c.name.lower() for c in self._definition.partition_columns
        ]

    def differences(self) -> Iterator[Difference]:
        """Yield the differences of the definitions."""
        if self.is_elsewhere:
            place = self._found.location or "no location"
            yield self._made(DriftKind.LOCATION, "", self._definition.location, place)
        yield from self._formats()
        wanted = to_hive(self._definition)
        yield from self.columns()
        yield from self._columns(DriftKind.PARTITION_COLUMN, wanted.partition_columns, self._found.partition_columns)
        theirs = self.parameters()
        yield from self._values(DriftKind.PARAMETER, own_parameters(self._definition), theirs)

    def columns(self) -> Iterator[Difference]:
        """Yield the differences of the data columns."""
        yield from self._columns(DriftKind.COLUMN, to_hive(self._definition).columns, self._their_columns())

    def parameters(self) -> dict[str, str]:
        """Return the metastore's parameters that users set."""
        try:
            properties = from_hive(self._found).properties
        except UnsupportedFormatError:
            properties = user_parameters(self._found.parameters)
        return comparable(properties, self._found.comment)

    def _formats(self) -> Iterator[Difference]:
        ours = self._definition
        try:
            theirs = from_hive(self._found)
        except UnsupportedFormatError as error:
            yield self._made(DriftKind.FORMAT, "", ours.format, error.message)
            return
        if theirs.format != ours.format:
            yield self._made(DriftKind.FORMAT, "", ours.format, theirs.format)
        else:
            yield from self._values(DriftKind.FORMAT, drop_secrets(ours.options), drop_secrets(theirs.options))

    def _columns(self, kind: DriftKind, ours: Sequence[Column], theirs: Sequence[Column]) -> Iterator[Difference]:
        left, right = ({c.name: column_words(c) for c in some} for some in (ours, theirs))
        yield from self._values(kind, left, right)
        orders = [[name for name in one if name in other] for one, other in ((left, right), (right, left))]
        if orders[0] != orders[1]:
            yield self._made(kind, ORDER, ", ".join(orders[0]), ", ".join(orders[1]))

    def _their_columns(self) -> tuple[Column, ...]:
        """Return the metastore's columns; struct fields that differ only in case get the index's spelling."""
        try:
            theirs = columns_of(self._found)
        except UnsupportedFormatError:
            theirs = self._found.columns
        known = {column_key(column): column for column in to_hive(self._definition).columns}
        return tuple(known.get(column_key(column), column) for column in theirs)

    def _values(self, kind: DriftKind, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[Difference]:
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            left, right = ours.get(name, MISSING), theirs.get(name, MISSING)
            if left != right:
                yield self._made(kind, name, left, right)

    def _made(self, kind: DriftKind, subject: str, index: str, metastore: str) -> Difference:
        name = str(self._definition.identifier)
        return Difference(name, kind, subject, None, index, metastore, evidence=self._evidence)


def own_parameters(definition: TableDefinition) -> dict[str, str]:
    """Return the index's properties that are published to the metastore."""
    buckets = {} if definition.bucketed_by is None else {BUCKETED_BY_PROPERTY: definition.bucketed_by}
    return comparable(user_parameters(definition.properties) | buckets, definition.comment)


def comparable(properties: Mapping[str, str], comment: str | None) -> dict[str, str]:
    """Return the properties that both the index and the metastore store, with the table's comment as one of them."""
    kept = drop_secrets(without_sparks_statistics(properties))
    settings = {name: value for name, value in kept.items() if name not in _SET_BY_SERVERS}
    return settings if comment is None else {**settings, COMMENT: comment}


def column_words(column: Column) -> str:
    """Return the column's type, and its comment if it has one."""
    return column.type if not column.comment else f"{column.type} COMMENT {column.comment!r}"
