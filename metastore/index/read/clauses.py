"""Joins SQL conditions by AND and OR within the databases' limits on the depth of expressions.

SQLite takes expressions up to 1,000 levels deep, and a chain of 1,000 ORs is that deep. Its parser takes 100 open
parentheses and operators; other databases run out of stack later. So a long chain is written as nested groups. A
condition that is too large for a database is replaced by one that selects more rows, and the caller evaluates the
predicate again on the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.sql.compiler import SQLCompiler

    _Clause = sa.ColumnElement[bool]

MAX_TERMS = 5_000
"""The most comparisons in one condition. A condition has up to two parameters per comparison, and SQLite's limit is
32,766 parameters."""

MAX_NESTING = 16
"""The most levels of nested groups."""

_IN_GROUP = 40


@dataclass(frozen=True, slots=True)
class Condition:
    """A SQL clause for a predicate, and whether it selects exactly the predicate's rows or a superset.

    Attributes:
        ids: A subquery for the ``partition_id`` of a few partitions, to which the clause is then limited; or None.
        terms: The number of comparisons.
        nesting: The depth of nested groups.
    """

    clause: _Clause
    exact: bool = True
    ids: sa.Subquery | None = None
    terms: int = 1
    nesting: int = 0

    def within(self, rows: sa.FromClause) -> _Clause:
        """Return one clause that combines ``clause`` and the limitation to ``ids``."""
        if self.ids is None:
            return self.clause
        return sa.and_(rows.c.partition_id.in_(sa.select(self.ids.c.partition_id)), self.clause)


EVERYTHING = Condition(sa.true(), exact=False)
"""A condition that is true for all rows: a superset of the rows of any predicate."""


class group(FunctionElement[bool]):
    """A clause in parentheses, which SQLAlchemy does not merge into the clauses around it: groups stay nested."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(group)
def _write_group(element: group, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 -- SQLAlchemy's
    return f"({compiler.process(element.clauses, **options)})"


def every(conditions: Sequence[Condition], rows: sa.FromClause) -> Condition:
    """Join conditions by AND. Conditions beyond the limits on number or depth are left out (a superset then)."""
    kept: list[Condition] = []
    terms = 0
    for condition in conditions:
        if terms + condition.terms <= MAX_TERMS and condition.nesting < MAX_NESTING - 1:
            kept.append(condition)
            terms += condition.terms
    exact = len(kept) == len(conditions) and all(c.exact for c in kept)
    first = next((c for c in kept if c.ids is not None), None)
    joined = _joined([replace(c, ids=None) if c is first else c for c in kept], rows, sa.and_, sa.true())
    return replace(joined, exact=exact, ids=None if first is None else first.ids)


def some(conditions: Sequence[Condition], rows: sa.FromClause) -> Condition:
    """Join conditions by OR. If the result would be too large or too deep, return ``EVERYTHING``, a superset."""
    too_deep = any(condition.nesting >= MAX_NESTING - 1 for condition in conditions)
    if too_deep or sum(condition.terms for condition in conditions) > MAX_TERMS:
        return EVERYTHING
    joined = _joined(conditions, rows, sa.or_, sa.false())
    return replace(joined, exact=all(condition.exact for condition in conditions))


def in_groups(join: Callable[..., _Clause], nothing: _Clause, clauses: Iterable[_Clause]) -> _Clause:
    """Join clauses by ``sa.and_`` or ``sa.or_`` (``join``); many clauses are joined in nested groups.

    ``nothing`` is the result for no clauses: true or false.
    """
    joined = list(clauses)
    while len(joined) > _IN_GROUP:
        joined = [group(join(*some_of_them)) for some_of_them in batched(joined, _IN_GROUP)]
    return join(nothing, *joined)


def _joined(
    conditions: Sequence[Condition], rows: sa.FromClause, join: Callable[..., _Clause], nothing: _Clause
) -> Condition:
    clause = in_groups(join, nothing, (condition.within(rows) for condition in conditions))
    deepest = max((condition.nesting + (condition.ids is not None) for condition in conditions), default=0)
    groups = 1 if len(conditions) <= _IN_GROUP else 3
    return Condition(clause, terms=max(1, sum(condition.terms for condition in conditions)), nesting=deepest + groups)
