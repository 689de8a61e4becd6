"""The partitions among which alone a plan looks: what a client has found for a condition that no predicate says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.tree import In, IsNull, all_of, any_of
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a partition column has in some partitions.

    Attributes:
        key: The column's name.
        partitions: Names of partitions of the table.
    """

    key: str
    partitions: tuple[str, ...]

    def bound(self, table: Table) -> Predicate:
        """Return the bound predicate that asks for one of the values.

        Raises:
            InvalidPredicateError: The key is no partition column of the table.
            InvalidPartitionNameError, InvalidValueError: A name is none of its partitions.
        """
        key, keys = key_named(table, self.key), table.definition.keys
        values = {typed_values(name, keys)[key.position] for name in self.partitions}
        given = In(key.name, tuple(value for value in values if value is not None))
        return any_of(given, IsNull(key.name)) if None in values else given


@dataclass(frozen=True, slots=True)
class Among:
    """Limits a plan to some partitions.

    Attributes:
        ids: Their numbers; None for any.
        values: What some of their keys have to be.
    """

    ids: tuple[int, ...] | None = None
    values: tuple[Values, ...] = ()

    def within(self, table: Table, predicate: Predicate | None) -> Predicate | None:
        """Return the bound predicate that also asks for the values.

        Raises:
            InvalidPredicateError, InvalidPartitionNameError, InvalidValueError: As in ``Values.bound``.
        """
        return all_of(predicate, *(each.bound(table) for each in self.values)) if self.values else predicate


EVERYWHERE = Among()


def key_named(table: Table, name: str) -> Key:
    """Return the partition column of that name, whatever its case.

    Raises:
        InvalidPredicateError: There is none.
    """
    found = next((key for key in table.definition.keys if key.name.lower() == name.lower()), None)
    if found is None:
        names = [key.name for key in table.definition.keys]
        raise InvalidPredicateError(
            f"{name[:120]!r} is not a partition column of table {table.identifier}. "
            f"{did_you_mean(name[:120], names)}Its partition columns are: {', '.join(names) or 'none'}.",
            {"table": str(table.identifier), "column": name[:120]},
        )
    return found
