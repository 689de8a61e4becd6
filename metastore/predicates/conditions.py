"""Binds conditions and predicates to a table's partition columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.predicates.tree import Predicate, bind

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table

Where: TypeAlias = str | Mapping[str, str | None] | None
"""A condition in SQL, or a (maybe partial) partition spec; None for everything."""


def bound_where(table: Table, where: Where) -> Predicate | None:
    """Return the bound predicate of a condition or partition spec over the table's partition columns.

    Raises:
        InvalidPredicateError: It is no condition, or names no partition column of the table.
        InvalidValueError: A value does not fit its column's type.
    """
    if where is None:
        return None
    # Not at the top: a command without a condition needs no parser of SQL.
    from catalog_ext.metastore.predicates.parser import parse_predicate, spec_predicate

    unbound = parse_predicate(where) if isinstance(where, str) else spec_predicate(where)
    return bind(unbound, table.definition.keys, str(table.identifier))


def bound_to(table: Table, predicate: Predicate | None) -> Predicate | None:
    """Return the predicate, bound to the table's partition columns; None stays None.

    Raises:
        InvalidPredicateError: It names no partition column of the table.
        InvalidValueError: A value does not fit its column's type.
    """
    return None if predicate is None else bind(predicate, table.definition.keys, str(table.identifier))
