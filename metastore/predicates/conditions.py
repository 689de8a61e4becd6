"""Conditions over a table's partition columns: bound predicates, PARTITION clauses, and filters of partition names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.model.typed_values import checked_values, typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.partition_specs import ANY_SESSION, clause_condition
from catalog_ext.metastore.predicates.tree import In, IsNull, Predicate, all_of, any_of, bind, no_such_key

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.partition_specs import KeyComparison, Session


Where: TypeAlias = str | Mapping[str, str | None] | None
"""A condition in SQL, or a (maybe partial) partition spec; None for everything."""


def bound_where(table: Table, where: Where) -> Predicate | None:
    """Return the bound predicate of a condition or partition spec over the table's partition columns.

    Raises:
        InvalidPredicateError: The text is not a valid condition, or names a column that is not a partition column.
        InvalidValueError: A value does not fit its column's type.
    """
    if where is None:
        return None
    # Imported here and not at the top of the module: a command without a condition then does not load the SQL parser.
    from catalog_ext.metastore.predicates.parser import parse_predicate, spec_predicate

    unbound = parse_predicate(where) if isinstance(where, str) else spec_predicate(where)
    return bind(unbound, table.definition.keys, str(table.identifier))


def bound_to(table: Table, predicate: Predicate | None) -> Predicate | None:
    """Return the predicate, bound to the table's partition columns; None stays None.

    Raises:
        InvalidPredicateError: The predicate names a column that is not a partition column of the table.
        InvalidValueError: A value does not fit its column's type.
    """
    return None if predicate is None else bind(predicate, table.definition.keys, str(table.identifier))


@dataclass(frozen=True, slots=True)
class PartitionClauses:
    """The PARTITION clauses of a statement.

    Attributes:
        clauses: The comparisons of each clause; a statement without a clause is about all partitions.
        session: The session that the statement runs in.
    """

    clauses: tuple[tuple[KeyComparison, ...], ...] = ()
    session: Session = ANY_SESSION

    def conditions(self, table: Table) -> list[Predicate]:
        """Return the unbound predicate of each clause.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
        """
        return [clause_condition(table, clause, self.session) for clause in self.clauses]

    def narrow(self, table: Table, predicate: Predicate | None) -> Predicate | None:
        """Return the predicate ANDed with "the partition matches one of the clauses"; unchanged without clauses.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
        """
        conditions = self.conditions(table)
        if not conditions:
            return predicate
        return all_of(predicate, any_of(*conditions))

    def bound(self, table: Table, predicate: Predicate | None) -> Predicate | None:
        """Return the result of ``narrow``, bound to the table's partition columns.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
            InvalidPredicateError: The predicate names a column that is not a partition column of the table.
        """
        return bound_to(table, self.narrow(table, predicate))


NO_CLAUSES = PartitionClauses()


@dataclass(frozen=True, slots=True)
class Values:
    """A set of values of one partition column, given by the names of partitions that have these values.

    Attributes:
        key: The column's name.
        partitions: Names of partitions of the table.
    """

    key: str
    partitions: tuple[str, ...]

    def bound(self, table: Table) -> Predicate:
        """Return the bound predicate that the column has one of the values.

        Raises:
            InvalidPredicateError: The key is not a partition column of the table.
            InvalidPartitionNameError, InvalidValueError: A name does not fit the table's partition columns.
        """
        key, keys = key_named(table, self.key), table.definition.keys
        values = {typed_values(name, keys)[key.position] for name in self.partitions}
        given = In(key.name, tuple(value for value in values if value is not None))
        return any_of(given, IsNull(key.name)) if None in values else given


@dataclass(frozen=True, slots=True)
class Among:
    """Limits the planning of a read to some partitions.

    Attributes:
        ids: The partitions' numbers in the index; None does not limit them.
        values: The values that a partition must have, for each limited partition column.
    """

    ids: tuple[int, ...] | None = None
    values: tuple[Values, ...] = ()

    def within(self, table: Table, predicate: Predicate | None) -> Predicate | None:
        """Return the predicate ANDed with the condition that each limited column has one of its values.

        Raises:
            InvalidPredicateError: A limited column is not a partition column of the table.
            InvalidPartitionNameError, InvalidValueError: A partition name does not fit the table's partition columns.
        """
        return all_of(predicate, *(each.bound(table) for each in self.values)) if self.values else predicate


EVERYWHERE = Among()


def key_named(table: Table, name: str) -> Key:
    """Return the partition column of that name, ignoring case.

    Raises:
        InvalidPredicateError: The table has no partition column of this name.
    """
    found = next((key for key in table.definition.keys if key.name.lower() == name.lower()), None)
    if found is None:
        raise no_such_key(name, table.definition.keys, str(table.identifier))
    return found


class NameFilter:
    """Evaluates a predicate, bound to a table's partition columns, on partition names. None matches every name."""

    def __init__(self, table: Table, predicate: Predicate | None) -> None:
        self._keys = table.definition.keys
        self._table = str(table.identifier)
        self._evaluator = None if predicate is None else Evaluator(predicate, self._keys)

    @property
    def is_limited(self) -> bool:
        """Whether the filter has a predicate; without one it matches every name."""
        return self._evaluator is not None

    def chooses(self, name: str) -> bool:
        """Return whether the predicate is true for a partition name; false if the name does not fit the table."""
        if self._evaluator is None:
            return True
        try:
            values = checked_values(name, self._keys, self._table)
        except (InvalidPartitionNameError, InvalidValueError):
            return False
        return self._evaluator.matches(values)
