"""The PARTITION clauses of a statement, and the predicates that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.predicates.conditions import bound_to
from catalog_ext.metastore.predicates.partition_specs import ANY_SESSION, clause_condition
from catalog_ext.metastore.predicates.tree import all_of, any_of

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.partition_specs import KeyComparison, Session
    from catalog_ext.metastore.predicates.tree import Predicate


@dataclass(frozen=True, slots=True)
class PartitionClauses:
    """The PARTITION clauses of a statement.

    Attributes:
        clauses: Their comparisons; a statement without a clause is about all partitions.
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
        """Return the predicate that the given one and one of the clauses, where there are any, are true; None for all.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
        """
        conditions = self.conditions(table)
        if not conditions:
            return predicate
        return all_of(predicate, any_of(*conditions))

    def bound(self, table: Table, predicate: Predicate | None) -> Predicate | None:
        """Return what ``narrow`` does, bound to the table's partition columns.

        Raises:
            InvalidPartitionSpecError, InvalidValueError: A clause does not fit the table's partition columns.
            InvalidPredicateError: The predicate does not.
        """
        return bound_to(table, self.narrow(table, predicate))


NO_CLAUSES = PartitionClauses()
